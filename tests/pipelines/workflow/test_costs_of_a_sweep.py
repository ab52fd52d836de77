"""What a sweep asks of its parts, counted: thousands of trials must not cost more each than a few do."""

import io
import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient
from pipeline_runs import finished_row
from ray import tune
from rich.console import Console
from sweep_tables import GRID, by_weights, table
from training_jobs import ignore, tiny_recipe

from pipelines.cluster.cluster import Cluster
from pipelines.reports import spaces
from pipelines.reports.report_files import write_report
from pipelines.storage.storage import Storage
from pipelines.tracking.runs import ParentRun
from pipelines.workflow.stages.sweep import SweepWatch
from pipelines.workflow.stages.trial_rows import TrialRows
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.jobs import spec
from proser_core.jobs.selection import ranked
from proser_core.jobs.worker import run_job


class Counting:
    """A client that counts its requests."""

    def __init__(self, client: MlflowClient) -> None:
        self._client, self.requests = client, Counter[str]()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        self.requests[name] += 1
        return getattr(self._client, name)


def test_a_finished_trial_is_tracked_in_three_requests(parent: ParentRun) -> None:
    client = Counting(parent.client)
    parent.client = client
    epochs = [{"epoch": number, "loss": 1.0 / (number + 1)} for number in range(20)]
    parent.track_trial({**finished_row("one"), "spaces": ["trade_off"]}, epochs)
    assert client.requests == {"create_run": 1, "log_batch": 1, "set_terminated": 1}


def test_an_epoch_is_never_cut_in_two_requests(parent: ParentRun, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[set[int]] = []
    log_batch = MlflowClient.log_batch

    def note(client: MlflowClient, run_id: str, metrics: Any = (), **others: Any) -> None:
        batches.append({metric.step for metric in metrics})
        log_batch(client, run_id, metrics=metrics, **others)

    monkeypatch.setattr(MlflowClient, "log_batch", note)
    epochs = [{"epoch": step, **{f"loss/{part}": 0.1 for part in range(399)}} for step in range(1, 6)]
    parent.track_trial(finished_row("one"), epochs)
    assert batches == [{1, 2}, {3, 4}, {0, 5}]


def session_with_room(store: Storage, trainings: int) -> Mock:
    """A session whose cluster trains so many at a time."""
    cluster = {"starting": "", "shortage.return_value": "", "concurrent_jobs.return_value": trainings}
    return Mock(store=store, console=Console(file=io.StringIO()), cluster=Mock(**cluster))


def test_a_look_at_running_trials_reads_no_folder_of_those_that_wait_or_are_tracked(
    split: TrainedSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, points = Storage(tmp_path), [replace(split.recipe.finetune, beta=float(beta)) for beta in range(5)]
    trials = split.trials(points, store)
    run_job(trials[0].job(split.task, split.pretrained), ignore)
    trials[1].folder.mkdir()
    session = session_with_room(store, trainings=2)
    watch = SweepWatch(session, trials, TrialRows({0: split.task}, {}, (), lambda: "silent"))
    seen: list[Path] = []
    read = spec.read_epochs
    monkeypatch.setattr(spec, "read_epochs", lambda folder: seen.append(folder) or read(folder))
    watch.poll()
    assert seen == [trials[0].folder, trials[1].folder]
    watch.poll()
    assert seen[2:] == [trials[1].folder]


def test_a_bar_counts_what_will_be_trained_and_what_runs(split: TrainedSplit, tmp_path: Path) -> None:
    """Of twelve trials that have begun three have failed after an epoch of their four, and two places are taken."""
    points = [replace(split.recipe.finetune, epochs=4, beta=float(beta)) for beta in range(12)]
    trials = split.trials(points, Storage(tmp_path))
    watch = SweepWatch(session_with_room(Storage(tmp_path), 2), trials, TrialRows({}, {}, (), lambda: "silent"))
    watch.expect({trial.key: 4 for trial in trials}, math.inf)
    for trial in trials:
        trial.folder.mkdir(parents=True)
    watch.poll()
    (shown,) = watch.progress._bar.tasks
    assert (shown.total, shown.fields["text"]) == (48, "first epoch of 2 trainings")
    for trial in trials[:3]:
        (trial.folder / spec.EPOCHS).write_text('{"epoch": 1}\n')
        spec.write_failure(trial.folder, "it diverged")
    watch.poll()
    assert shown.total == 48 - 3 * 3
    (trials[0].folder / spec.FAILURE).unlink()
    watch.poll()
    assert shown.total == 48 - 2 * 3


@pytest.mark.usefixtures("empty_figures")
def test_a_report_chooses_the_best_point_once_for_each_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[int] = Counter()
    for count in (10, 25):

        def counted(*arguments: Any, count: int = count) -> Any:
            calls[count] += 1
            return ranked(*arguments)

        with monkeypatch.context() as patch:
            patch.setattr(spaces, "ranked", counted)
            made = table("trade_off", GRID[:count], [0], by_weights)
            write_report(made, tiny_recipe(), tmp_path / str(count))
    assert calls[25] == calls[10] > 0


def test_tune_is_given_jobs_that_it_copies_as_one_value_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []

    class Tuner:
        def __init__(self, trainable: Any, param_space: Any, **_: Any) -> None:
            given.append((trainable, param_space))

        def fit(self) -> list[Any]:
            return []

    monkeypatch.setattr(tune, "Tuner", Tuner)
    cluster = Cluster(tiny_recipe().cluster, Storage(tmp_path), _nodes=[{"CPU": 2.0}])
    jobs = [spec.Job("finetune", {"seed": seed}, "task", str(tmp_path / str(seed))) for seed in range(3)]
    cluster.run_jobs(jobs, 1, "sweep")
    ((_, space),) = given
    assert [type(value) for value in space["job"]["grid_search"]] == [str, str, str]
    assert [json.loads(value) for value in space["job"]["grid_search"]] == [job.to_json() for job in jobs]
