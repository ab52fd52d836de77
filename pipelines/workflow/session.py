"""What every command that trains begins and ends with: its checks, the storage held alone, the closing lines."""

import contextlib
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.status import Status

from pipelines.cluster.cluster import Cluster
from pipelines.cluster.node_metrics import node_metrics
from pipelines.cluster.scaling import largest_cluster
from pipelines.console import say
from pipelines.progress import explained_if_slow, stage_bar
from pipelines.storage.opening import open_storage
from pipelines.storage.storage import Storage
from pipelines.tracking.deferred import DeferredTracking, tracking_timeout
from pipelines.tracking.runs import ParentRun
from pipelines.tracking.server import away, shown_uri, tracking_errors
from pipelines.tracking.system_metrics import system_metrics
from pipelines.workflow.checks import expected_images
from pipelines.workflow.stage import stage_code
from pipelines.workflow.training import TrainingInputs
from proser_core.config import ClusterConfig, Recipe, decisive_fields, digest_of
from proser_core.data.data_sets import DataRoot
from proser_core.data.outliers.outlier_sets import outlier_notes
from proser_core.data.splits.families import defect_of
from proser_core.errors import ConfigError, TrainingError, first_line, hide_secrets
from proser_core.jobs.spec import PRETRAIN
from proser_core.learning.training import scoring_device
from proser_core.networks.pretrained import describe_backbone
from proser_core.titles import duration


@dataclass(frozen=True)
class Session:
    """What a command works with: the storage that it holds alone, the cluster, tracking, and the terminal."""

    store: Storage
    cluster: Cluster
    tracking: DeferredTracking
    console: Console

    def say(self, text: str) -> None:
        """One line for the user."""
        say(self.console, text)

    def measuring(self) -> Status:
        """A line on a terminal while steps are measured, which can take half a minute with the start of Ray."""
        return self.console.status("measuring steps of each training on the workers")

    def follow(self, run: ParentRun, *, trains: bool = True) -> "TrainingSession":
        """The session of the trainings that one MLflow run shows."""
        return TrainingSession(self.store, self.cluster, self.tracking, self.console, run, trains)


@dataclass(frozen=True)
class TrainingSession(Session):
    """What the stages that train need beside values. Without `trains`, a training that is not in the storage has
    failed."""

    run: ParentRun
    trains: bool = True


class TimeUpError(TrainingError):
    """A limit of time ended trainings before any had a result."""


@contextmanager
def open_session(
    cluster: ClusterConfig,
    storage: Path | str,
    console: Console,
    work: str,
    *,
    cluster_file: Path | None = None,
    stops_trials: bool = False,
    compares_times: bool = False,
) -> Iterator[Session]:
    """Hold the storage for this work alone, with a cluster that `cluster_file` launched. Raises ConfigError for a
    storage, a tracking timeout or a file that cannot be used, TrackingError where tracking fails inside."""
    tracking_timeout()
    if cluster_file is not None and not cluster.address:
        raise ConfigError(
            f"--cluster-file got {cluster_file}, and without --cluster.address Ray starts on this machine alone; give "
            "the cluster's address, or omit the file"
        )
    with open_storage(storage, work, partial(say, console)) as store, tracking_errors():
        grows_to = largest_cluster(cluster_file, cluster) if cluster.address else []
        store.progress = partial(stage_bar, console)
        cluster_here = Cluster(cluster, store, stops_trials, compares_times, grows_to)
        yield Session(store, cluster_here, DeferredTracking(partial(say, console)), console)


def announce(
    title: str, asked: Recipe, recipe: Recipe, data_dir: DataRoot, storage: Path | str, console: Console
) -> None:
    """Print where a command works, what is known to be wrong with its images, and what became of the backbone that was
    asked for."""
    say(console, f"{title}: storage {storage}, tracking {shown_uri()}")
    say_warnings(recipe, data_dir, console)
    if recipe.network.is_of_library:
        say(console, describe_backbone(recipe, asked.network.features, expected_images(recipe, data_dir)["train"]))


def say_warnings(recipe: Recipe, data_dir: DataRoot, console: Console) -> None:
    """Print what is wrong with the recipe's class splits and outlier sets, what cannot work well together, and where
    this machine lacks the GPU that the cluster has. Raises DataError for an outlier set not found."""
    data = recipe.data
    defect = defect_of(data.split_family, data.name, data.unknown)
    if defect:
        against = f" against {data.unknown}" if data.unknown else ""
        say(console, f"class splits of {data.split_family}, {data.name}{against}: {defect}")
    for name, note in outlier_notes(data.outliers, data_dir).items():
        say(console, f"{name}: {note}")
    warn_of_mirror(recipe, console)
    if recipe.cluster.address and recipe.cluster.uses_gpu and scoring_device(recipe).type == "cpu":
        say(
            console,
            "torch finds no GPU on this machine: embeddings and evaluation run on its CPU, not on the cluster's GPUs",
        )


def warn_of_mirror(recipe: Recipe, console: Console) -> None:
    """Print that mirrored images will not help where images are not flipped; not before data.flip auto is decided."""
    if recipe.calibration.mirror and recipe.data.flip != "auto" and not recipe.data.flips:
        say(
            console,
            "calibration.mirror averages with mirrored images, which a training without flips never shows: expect "
            "worse results than without",
        )


def open_run(
    store: Storage, title: str, recipe: Recipe, inputs: TrainingInputs, decisive: Sequence[Any], **params: Any
) -> ParentRun:
    """The MLflow run, new or reopened, of this storage, whose lock keeps others out of it, this recipe, these images,
    the points of its spaces, and whatever else is `decisive`; it shows `params` too."""
    # names and sizes of the files, groups of a table: the time of change decides nothing by itself
    sizes = [[file[:2] for file in data["files"]] for data in inputs.data_inputs]
    code = [stage_code(PRETRAIN), stage_code("evaluate")]
    work = [store.identity(), recipe.name, sizes, *decisive, *inputs.spaces.values()]
    run_key = digest_of(decisive_fields(recipe), work, code)
    shown = {
        "recipe": recipe.name,
        "split_family": recipe.data.split_family or ("" if recipe.data.outliers else "permuted"),
        "seed": recipe.seed,
        "precision": recipe.precision,
        "backbone": recipe.network.backbone,
        "pretrain_epochs": recipe.pretrain.epochs,
        "finetune_epochs": recipe.finetune.epochs,
        **params,
    }
    return ParentRun.open(title, run_key, shown)


def execute(
    session: TrainingSession, inputs: TrainingInputs, modules: Sequence[ModuleType], targets: Iterable[str], **more: Any
) -> dict[str, Any]:
    """Results of nodes of a DAG; the MLflow run ends with what happened."""
    run, store, cluster = session.run, session.store, session.cluster
    with mark_run_failed(session):
        session.tracking.track(run.start)
        with system_metrics(run, session.tracking.say_awaited), node_metrics(run, cluster):
            given = {**vars(inputs), "session": session, "store": store, **more}
            results = driver_of(*modules).execute(list(targets), inputs=given)
    session.tracking.track(run.end, "FINISHED")
    session.tracking.settle()
    return results


@contextmanager
def mark_run_failed(session: TrainingSession) -> Iterator[None]:
    """End the MLflow run as killed, or as failed with the reason, where the work below raises; not where another
    command has taken over the storage, and the run with it."""
    try:
        yield
    except BaseException as error:
        run = session.run
        if session.store.is_taken_over:
            raise
        # what went wrong matters more than its mark
        with contextlib.suppress(Exception), explained_if_slow(session.tracking.say_awaited):
            stopped, reason = isinstance(error, KeyboardInterrupt), hide_secrets(first_line(error))
            run.end("KILLED" if stopped or isinstance(error, TimeUpError) else "FAILED", "" if stopped else reason)
        raise


def driver_of(*modules: ModuleType) -> Any:
    """Hamilton's driver of the DAG that the functions of the modules are."""
    os.environ.setdefault("HAMILTON_TELEMETRY_ENABLED", "false")
    from hamilton import driver  # it reads that variable as it is imported

    logging.getLogger("hamilton").setLevel(logging.CRITICAL)  # it would frame a user's mistake as a crash
    return driver.Builder().with_modules(*modules).build()


def close(session: Session, report: Path, started: float, failures: Sequence[str], run: ParentRun | None = None) -> int:
    """Say where everything is, also the trials of a `run`, what it took and what went wrong; the exit code."""
    session.say(f"Figures and tables: {report}")
    _say_runs(session, run)
    session.say(_time(time.monotonic() - started, session.store.ran))
    say_failures(session, failures)
    return 1 if failures or session.tracking.lost else 0


def _time(seconds: float, ran: Mapping[str, float]) -> str:
    """What a command took, and what of it each stage."""
    if not ran:
        return f"Time: {duration(seconds)}; every stage was already finished"
    rest = {"MLflow and the rest": left} if (left := seconds - sum(ran.values())) >= 1 else {}
    return (
        f"Time: {duration(seconds)} ({', '.join(f'{name} {duration(each)}' for name, each in {**ran, **rest}.items())})"
    )


def _say_runs(session: Session, run: ParentRun | None) -> None:
    """Print where the runs are seen; not by `say`, which would take a parameter of the view's address for a secret."""
    uri = shown_uri()
    where = uri if run is None else run.link()
    here = "type `proser ui`" if run is None else f"type `proser ui`, then open {where}"
    line = f"Runs: {where if uri.startswith('http') else here}"
    session.console.print(line, highlight=False, markup=False, soft_wrap=True)


def say_failures(session: Session, failures: Sequence[str]) -> None:
    """Trials that failed, and what could not be tracked."""
    for failure in failures:
        session.say(f"failed: {failure}")
    lost = session.tracking.lost
    if lost:
        session.say(
            f"not tracked: {away()} ({lost}); all results are in {session.store.title}, and the same "
            "command logs the rest once that is fixed"
        )
