"""Where the tracking server is, and whether it answers."""

import logging
import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

from pipelines.console import warn
from pipelines.tracking.reasons import first_answer, is_of_requests, reason_of
from proser_core.errors import TrackingError, hide_secrets
from proser_core.store.files import DISK_FULL

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.store.entities import PagedList

Found = TypeVar("Found")
_warn_once = cache(warn)
DATABASE = "mlflow.db"
SQLITE_FILE = re.compile(r"sqlite(\+\w+)?:///(?!:memory:|file:)(?P<file>[^?]+)")
SERVER = re.compile(r"https?://[^/:]|(postgresql|mysql|mssql)(\+\w+)?://|databricks(-uc)?(://|$)")
PLUGINS = "mlflow.tracking_store"  # entry points of packages with servers of their own, by scheme
EXPERIMENT = "proser"
UI_PORT = 5000
LOCAL_UI = f"http://127.0.0.1:{UI_PORT}"  # where `proser ui` serves by default
OPENS_AS = {"mlflow.experimentKind": "custom_model_development"}  # training runs; undocumented, read in MLflow 3.17.2
NOTE = "mlflow.note.content"  # description of an experiment or a run
DESCRIPTION = """\
Runs of `proser`. A run, a sweep or a reproduction is a parent, its trials are its children. Each has a saved view (top
right): its trials, best first, with the fields that vary and the metrics that matter. The trial that development data
selected has the tag `proser.selected`; its model is in Models, with its metrics and the images they were measured on.

- `dev/...` is measured on validation images and development unknowns, and alone selects; `test/...` only reports.
- `calibration/bias` is minus the threshold on the score, at which most validation images stay known.
- Decisions on the champion (`proser promote`, `proser rollback`, `proser calibrate`) are runs of their own.
"""
SETTINGS = {
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # blindly again, a run whose answer was lost would be made twice
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",  # it draws bars where tqdm is installed, as beside timm
    "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING": "true",
}
RESUME_ADVICE = "all that was trained is in the storage: once that is fixed, the same command again logs the rest"
OUTAGE_CODES = (
    "INTERNAL_ERROR",
    "TEMPORARILY_UNAVAILABLE",
    "DEADLINE_EXCEEDED",
    "REQUEST_LIMIT_EXCEEDED",
    "RESOURCE_EXHAUSTED",
    "IO_ERROR",
)
"""MLflow's error codes for a server, a database or a file store that does not answer now."""
PASSING = (408, 425, 429)  # of the HTTP statuses of a refusal, those that ask to try again later
MISSING_CODES = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
"""MLflow's error codes for a name that it does not have, and for an alias or a name that cannot be one."""


def tracking_uri() -> str:
    """MLFLOW_TRACKING_URI, or a SQLite database in the working directory, as a bare `mlflow ui` reads it. The path of a
    SQLite database is absolute, because workers have another working directory. Raises TrackingError for what MLflow
    would take for a folder or not know, for a database in memory, which would be lost with all that is tracked, and for
    a path that MLflow would read as another one."""
    uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{DATABASE}"
    file = sqlite_file(uri)
    if file is not None:
        _check_nameable(file)
        return re.sub(r":///[^?]+", lambda _: f":///{file}", uri, count=1)
    if not SERVER.match(uri) and not entry_points(group=PLUGINS, name=uri.partition("://")[0]):
        shown = re.sub(".*@", "...@", uri)  # of a malformed URI nobody knows where its password begins
        raise TrackingError(
            f"MLFLOW_TRACKING_URI is {shown!r}; need a server such as http://HOST:{UI_PORT}, or a database such as "
            f"sqlite:///{DATABASE}, which it is where the variable is unset"
        )
    return uri


def _check_nameable(file: Path) -> None:
    """Raises TrackingError for a path that a database's URI, or MLflow's URI of the artefacts, cannot name."""
    path = str(file)
    if "?" in path or unquote(path) != path:  # behind the one are options; SQLAlchemy 2.1 reads %20 as a space
        reason = "in a SQLite URI a question mark, or a percent sign as in %20, stands for something else"
    elif unquote(file.as_uri()) != f"file://{path}":
        reason = "MLflow cannot read its name as UTF-8 (where the locale is to blame, set PYTHONUTF8=1)"
    else:
        return
    raise TrackingError(
        f"the tracking database would be {file}, and {reason}; work in another folder, or give a server or "
        "an unquoted path in MLFLOW_TRACKING_URI"
    )


def sqlite_file(uri: str) -> Path | None:
    """Absolute path of a SQLite database; None for any other URI, also of a database in memory."""
    found = SQLITE_FILE.match(uri)
    return Path(found["file"]).absolute() if found else None


def tracking_folder() -> Path | None:
    """Where a database on this machine keeps the artefacts, in the same folder; None for a server."""
    file = sqlite_file(tracking_uri())
    return None if file is None else file.resolve().parent / "mlruns"


def shown_uri() -> str:
    """The same for people, without a password."""
    return hide_secrets(tracking_uri())


def tracker() -> str:
    """The server, or the database in a file, for people."""
    file = sqlite_file(tracking_uri())
    return f"the tracking server {shown_uri()}" if file is None else f"the tracking database {file}"


def away() -> str:
    """A clause that says that tracking cannot be used now: the disk of a file may be full."""
    return f"{tracker()} {'does not answer' if sqlite_file(tracking_uri()) is None else 'cannot be used'}"


def connect(*, creates: bool = False, writes: bool = False) -> "MlflowClient":
    """A client of a server that answers, or of a database that opens; one that `creates` makes a new database in a
    file. Raises TrackingError where there is none, or it does not answer, or a file that it `writes` or `creates`
    cannot be written."""
    uri = tracking_uri()
    file = sqlite_file(uri)
    if file is not None and not (creates or file.exists()):
        raise TrackingError(
            f"there is no tracking database {file}; run the command in the folder that holds your runs (mlflow.db), or "
            "set MLFLOW_TRACKING_URI. `proser run` registers a first model"
        )
    os.environ.update({name: value for name, value in SETTINGS.items() if name not in os.environ})
    warnings.filterwarnings("ignore", module="mlflow")
    import mlflow

    from pipelines.tracking.databases import IN_FILE, check_writable, open_database

    for name in ("mlflow", "alembic"):  # after the import, which sets them too
        logging.getLogger(name).setLevel(logging.ERROR)
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # it prints the traceback of what it raises

    open_database(uri, shown_uri(), file)
    if file is not None and (creates or writes):
        check_writable(file)
    try:
        mlflow.set_tracking_uri(uri)
        client = mlflow.MlflowClient(uri)
        client.search_experiments(max_results=1)
    except Exception as error:  # MLflow wraps the reasons of a dozen back ends
        found = first_answer(error) if file is None else f"cannot be used ({reason_of(error)}); {IN_FILE}"
        raise TrackingError(f"{tracker()} {found}") from error
    registry = os.environ.get("MLFLOW_REGISTRY_URI")
    if creates and registry:  # asked before any work: a run would end without its model
        try:
            client.search_registered_models(max_results=1)
        except Exception as error:
            raise TrackingError(
                f"the registry of models {hide_secrets(registry)} cannot be used ({reason_of(error)}); correct "
                "MLFLOW_REGISTRY_URI, or unset it to keep models where the runs are"
            ) from error
    return client


def check_tracking(*, dry_run: bool) -> None:
    """Raises TrackingError where a command could not track its runs. A dry run asks a server, and leaves a database in
    a file alone, which it would create or upgrade."""
    if not dry_run or sqlite_file(tracking_uri()) is None:
        connect(creates=True)


def is_outage(error: Exception) -> bool:
    """Whether an error of MLflow's client says that its server or database is away, rather than that it refuses."""
    from mlflow.exceptions import MlflowException

    if isinstance(error, MlflowException):
        return error.error_code in OUTAGE_CODES
    if isinstance(error, OSError) and error.errno in DISK_FULL:  # the folder of the artefacts
        return True
    if is_of_requests(error):
        status = getattr(getattr(error, "response", None), "status_code", 0)
        return status in PASSING or not 400 <= status < 500
    return isinstance(error, ConnectionError | TimeoutError)


def get_or_none(request: Callable[[], Found]) -> Found | None:
    """What the server returns; None only where it answers that there is no such thing. Raises MlflowException where it
    does not answer or refuses to: nobody knows then whether there is one."""
    from mlflow.exceptions import MlflowException

    try:
        return request()
    except MlflowException as error:
        if error.error_code not in MISSING_CODES:
            raise
        return None


def quoted(value: str) -> str:
    """A value as MLflow's filters take it; they can hold none with both kinds of quotes."""
    quote = '"' if "'" in value else "'"
    return f"{quote}{value}{quote}"


def all_pages(search: "Callable[..., PagedList[Found]]", *arguments: Any, **options: Any) -> list[Found]:
    """Everything that a search of MLflow's client finds, which it returns page by page."""
    page = search(*arguments, **options)
    found = list(page)
    while page.token:
        page = search(*arguments, **options, page_token=page.token)
        found += page
    return found


@contextmanager
def tracking_errors(kept: str = RESUME_ADVICE) -> Iterator[None]:
    """Turn MLflow's own errors into one that says what is not lost, and what to do."""
    try:
        yield
    except Exception as error:
        mlflow = sys.modules.get("mlflow.exceptions")  # not imported here: `--help` and refusals do without it
        if mlflow is None or not (isinstance(error, mlflow.MlflowException) or is_of_requests(error)):
            raise
        what = away() if is_outage(error) else f"{tracker()} refused a request"
        raise TrackingError(f"{what} ({reason_of(error)}); {kept}") from error


def experiment_id(client: "MlflowClient", *, needs_artefacts: bool = True) -> str:
    """The experiment of this project, created at first use. A local database has its artefacts in its folder; raises
    TrackingError where it was moved away from them and they are needed."""
    from mlflow.exceptions import MlflowException

    found, folder = client.get_experiment_by_name(EXPERIMENT), tracking_folder()
    if found is not None and found.lifecycle_stage == "deleted":
        raise TrackingError(
            f"the experiment {EXPERIMENT!r} was deleted on {shown_uri()}; restore it with "
            f"`mlflow experiments restore -x {found.experiment_id}`"
        )
    if found is not None:
        if needs_artefacts and folder is not None:
            _check_unmoved(found.artifact_location, folder / EXPERIMENT)
        if NOTE not in found.tags:
            client.set_experiment_tag(found.experiment_id, NOTE, DESCRIPTION)
        return found.experiment_id
    location = None if folder is None else (folder / EXPERIMENT).as_uri()
    try:
        tags = {**OPENS_AS, NOTE: DESCRIPTION}
        return client.create_experiment(EXPERIMENT, artifact_location=location, tags=tags)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
        return experiment_id(client)  # another process came first


def _check_unmoved(location: str, now: Path) -> None:
    """Raises TrackingError where a database, whose artefacts would now be in `now`, looks for them where nothing is;
    warns where both places have some, as where the folder is a copy."""
    from mlflow.utils.file_utils import local_file_uri_to_path

    before = Path(local_file_uri_to_path(location))
    if not location.startswith("file:") or before == now:
        return
    if os.path.exists(before):
        if os.path.exists(now) and not os.path.samefile(before, now):
            _warn_once(f"{tracker()} has its artefacts in {before}, also new ones, and not in {now}; keep that folder")
        return
    made, linked = (shlex.join(map(str, paths)) for paths in ((now, before.parent), (now, before)))
    raise TrackingError(
        f"{tracker()} was moved: it looks for its artefacts in {before}, which cannot be reached; move it back with "
        f"its {now.parent.name}, or lead from there to here with `mkdir -p {made} && ln -sfn {linked}`"
    )
