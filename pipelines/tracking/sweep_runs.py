"""The MLflow run of a finished sweep, by its name or its id, and its report."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.tracking.runs import PARENT_TAG
from pipelines.tracking.server import experiment_id, tracking_uri
from proser_core.errors import TrackingError, first_line

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

LISTED = 5  # sweeps that an error names


def find_run(client: "MlflowClient", sweep: str) -> "Run":
    """The run with this id, or the newest with this name. Raises TrackingError where there is none."""
    from mlflow.exceptions import MlflowException

    try:
        return client.get_run(sweep)
    except MlflowException:
        pass
    runs = client.search_runs([experiment_id(client)], order_by=["start_time DESC"], max_results=1000)
    parents = [run for run in runs if PARENT_TAG not in run.data.tags and "spaces" in run.data.params]
    found = next((run for run in parents if run.info.run_name == sweep), None)
    if found is None:
        names = "; ".join(dict.fromkeys(str(run.info.run_name) for run in parents[:LISTED])) or "none"
        raise TrackingError(f"{tracking_uri()} has no sweep {sweep!r}; give the name or id of a run. Sweeps: {names}")
    return found


def fetch_report(client: "MlflowClient", run: "Run", names: Sequence[str], place: Path) -> Path:
    """A folder with these files of a sweep's report. Raises TrackingError where it has no report."""
    from mlflow.exceptions import MlflowException

    for name in names:
        try:
            client.download_artifacts(run.info.run_id, name, str(place))
        except (MlflowException, OSError) as error:
            raise TrackingError(
                f"the run {run.info.run_name!r} has no {name} ({first_line(error)}); it is no sweep that has ended. "
                "The same `proser sweep` again ends it"
            ) from error
    return place
