"""All that MLflow has of a sweep, in a form in which two sweeps can be compared."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run

from pipelines.tracking.runs import PARENT_TAG, TRIAL_KEY
from pipelines.tracking.server import EXPERIMENT

Curve = list[tuple[int, float]]  # step and value
SWEEP = "the sweep"


@dataclass
class Tracked:
    """Each run by its trial: status, parameters, curves and files; and by name what is there more than once."""

    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    doubled: list[str] = field(default_factory=list)

    def differing(self, other: "Tracked") -> list[str]:
        """Runs that are missing or not the same in another one."""
        return sorted(key for key in self.runs.keys() | other.runs.keys() if self.runs.get(key) != other.runs.get(key))


def read_tracked(uri: str) -> Tracked:
    """Everything in the experiment, through MLflow's client."""
    client, tracked = MlflowClient(uri), Tracked()
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    trials: Counter[str] = Counter()
    for run in runs:
        key = run.data.tags.get(TRIAL_KEY, SWEEP)
        trials[key] += 1
        curves = _curves(client, run)
        for name, curve in curves.items():
            if len({step for step, _ in curve}) < len(curve):
                tracked.doubled.append(f"{key} {name}")
        tracked.runs[key] = {
            "child": PARENT_TAG in run.data.tags,
            "status": run.info.status,
            "params": run.data.params,
            "curves": curves,
            "files": _files(client, run.info.run_id),
        }
    tracked.doubled += [key for key, count in trials.items() if count > 1]
    return tracked


def _curves(client: MlflowClient, run: Run) -> dict[str, Curve]:
    return {
        name: sorted((each.step, each.value) for each in client.get_metric_history(run.info.run_id, name))
        for name in run.data.metrics
        if not name.startswith("system/")  # the load of the machine differs each time
    }


def _files(client: MlflowClient, run_id: str, folder: str = "") -> list[str]:
    found: list[str] = []
    for item in client.list_artifacts(run_id, folder):
        found += _files(client, run_id, item.path) if item.is_dir else [item.path]
    return sorted(found)
