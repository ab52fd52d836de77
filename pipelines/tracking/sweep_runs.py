"""The MLflow run of a finished sweep, by its name or its id, its trials and its report."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.exceptions import MlflowException

from pipelines.tracking.runs import PARENT_TAG, TRIAL_KEY, find_tagged, run_of_its_own
from pipelines.tracking.server import experiment_id, get_or_none, quoted, shown_uri
from proser_core.errors import TrackingError, first_line

LISTED = 5  # sweeps that an error names


def find_run(client: MlflowClient, sweep: str) -> Run:
    """The run with this id, or the newest with this name. Raises TrackingError where there is none."""
    run = get_or_none(lambda: client.get_run(sweep))
    if run is not None:
        return run
    sweeps = "params.spaces != ''"  # a trial has no such parameter
    named = f"{sweeps} and attributes.run_name = {quoted(sweep)}"
    found = get_or_none(lambda: _newest(client, named, 1))
    if not found:
        names = "; ".join(dict.fromkeys(str(run.info.run_name) for run in _newest(client, sweeps, LISTED))) or "none"
        raise TrackingError(f"{shown_uri()} has no sweep {sweep!r}; give the name or id of a run. Sweeps: {names}")
    return found[0]


def _newest(client: MlflowClient, query: str, count: int) -> list[Run]:
    found = client.search_runs([experiment_id(client)], query, order_by=["start_time DESC"], max_results=count)
    return list(found)


def fetch_report(client: MlflowClient, run: Run, names: Sequence[str], place: Path) -> Path:
    """A folder with these files of a sweep's report. Raises TrackingError where it has no report."""
    for name in names:
        parent = (place / name).parent  # MLflow puts a file right into the folder that it is given
        parent.mkdir(exist_ok=True)
        try:
            client.download_artifacts(run.info.run_id, name, str(parent))
        except (MlflowException, OSError) as error:
            client.get_run(run.info.run_id)  # raises where the server is away
            raise TrackingError(
                f"the run {run.info.run_name!r} has no {name} ({first_line(error)}); it is not the run of a sweep that "
                "this version has finished. Repeat the same `proser sweep`, and give the name or id of its run"
            ) from error
    return place


def trial_run(client: MlflowClient, sweep: Run, trial_key: str) -> str:
    """The run of a trial of a sweep. Raises TrackingError where it was deleted."""
    found = find_tagged(client, sweep.info.experiment_id, {PARENT_TAG: sweep.info.run_id, TRIAL_KEY: trial_key})
    if found is None:
        raise TrackingError(
            f"{shown_uri()} has no run of trial {trial_key} of {sweep.info.run_name!r}; the same `proser sweep` logs it"
        )
    return str(found.info.run_id)


def run_of_model(
    client: MlflowClient, sweep: Run, trial_key: str, digest: str, members: int
) -> AbstractContextManager[str]:
    """The run of a model that is a trial of a sweep or, of more `members`, a run of its own by the digest of its card.
    Raises as `trial_run`."""
    if members == 1:
        return nullcontext(trial_run(client, sweep, trial_key))
    key = f"ensemble-{digest[:16]}"  # each child of a sweep has a key of its own
    return run_of_its_own(client, f"ensemble of {members}", {PARENT_TAG: sweep.info.run_id, TRIAL_KEY: key})
