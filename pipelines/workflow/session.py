"""What every command that runs a DAG begins and ends with: its checks, the storage held alone, the closing lines."""

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

from pipelines.console import say
from pipelines.storage.mirror import mirrored, shown
from pipelines.tracking.server import shown_uri, tracking_folder
from pipelines.workflow.context import RunContext, tracking_patience
from proser_core.config import Recipe
from proser_core.errors import ConfigError
from proser_core.jobs.progress import duration
from proser_core.store.lock import alone_in
from proser_core.store.store import Store


def check_storage(recipe: Recipe, storage: Path | str) -> None:
    """Raises ConfigError where images are to be streamed and the storage does not take them to other machines."""
    if recipe.data.streaming and isinstance(storage, str):
        raise ConfigError(
            f"data.streaming is on, which reads images where they lie, and --storage got {storage}, behind which "
            "machines share no folder; give a folder that all of them see, or set data.streaming to false"
        )


def check_apart(recipe: Recipe, data_dir: Path | None, storage: Path | str) -> None:
    """Raises ConfigError where what a run writes lies among the folders of a user's own images."""
    if recipe.data.name != "folder" or data_dir is None:
        return
    written = {"--storage": storage, "the tracking database": tracking_folder()}
    for name, place in written.items():
        if isinstance(place, Path) and place.resolve().is_relative_to(data_dir.resolve()):
            raise ConfigError(
                f"{name} writes to {place}, which is in the data directory {data_dir}: figures would be taken for "
                "images. Give the command from another folder, or --storage and MLFLOW_TRACKING_URI elsewhere"
            )


def say_defects(recipe: Recipe, data_dir: Path | None, console: Console) -> None:
    """What is known to be wrong with the class splits that the recipe takes, and with its outlier sets.

    Raises DataError for an outlier set that is not found.
    """
    from proser_core.data.outliers.outlier_sets import outlier_notes
    from proser_core.data.splits.families import defect_of

    data = recipe.data
    defect = defect_of(data.split_family, data.name, data.unknown)
    if defect:
        against = f" against {data.unknown}" if data.unknown else ""
        say(console, f"class splits of {data.split_family}, {data.name}{against}: {defect}")
    for name, note in outlier_notes(data.outliers, data_dir).items():
        say(console, f"{name}: {note}")


@contextmanager
def opened(storage: Path | str, console: Console, work: str) -> Iterator[Store]:
    """The storage, a folder or a URI, held for this work alone.

    Raises ConfigError where the work could not be logged at its end for a variable that is no number.
    """
    tracking_patience()
    tell = partial(say, console)
    if isinstance(storage, str):
        with mirrored(storage, work, announce=tell, tell=tell) as store:
            yield store
        return
    store = Store(storage, announce=tell)
    with alone_in(store.root, work):
        yield store


def with_absolute_path(recipe: Recipe) -> Recipe:
    """Workers may run in another directory than the one in which the path was typed."""
    path = recipe.network.weights_file
    return replace(recipe, network=replace(recipe.network, weights_file=str(Path(path).absolute()))) if path else recipe


def data_sizes(data: Iterable[dict[str, Any]]) -> list[Any]:
    """Names and sizes of the files of each `prepare_inputs`; the time of change decides nothing by itself."""
    return [[file[:2] for file in inputs["files"]] for inputs in data]


def common_params(recipe: Recipe, bf16: bool) -> dict[str, Any]:
    """What tracking shows of a recipe on every parent run."""
    return {
        "recipe": recipe.name,
        "split_family": recipe.data.split_family or ("" if recipe.data.outliers else "permuted"),
        "seed": recipe.seed,
        "precision": "bf16" if bf16 else "fp32",
        "backbone": recipe.network.backbone,
        "pretrain_epochs": recipe.pretrain.epochs,
        "finetune_epochs": recipe.finetune.epochs,
    }


def execute(
    modules: Sequence[ModuleType], targets: list[str], inputs: dict[str, Any], context: RunContext
) -> dict[str, Any]:
    """Results of nodes of a DAG; the parent run ends with what happened."""
    context.track(context.parent.start)
    with marked(context):
        results = driver_of(*modules).execute(targets, inputs=inputs)
    context.track(lambda: context.parent.end("FINISHED"))
    context.settle()
    return results


@contextmanager
def marked(context: RunContext) -> Iterator[None]:
    """The parent run ends as killed or failed where the work below raises."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):  # what went wrong matters more than its mark
            context.parent.end("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        raise


def driver_of(*modules: ModuleType) -> Any:
    """Hamilton's driver of the DAG that the functions of the modules are."""
    os.environ.setdefault("HAMILTON_TELEMETRY_ENABLED", "false")
    from hamilton import driver

    logging.getLogger("hamilton").setLevel(logging.CRITICAL)  # it would frame a user's mistake as a crash
    return driver.Builder().with_modules(*modules).build()


def exit_code(context: RunContext) -> int:
    """1 where a trial failed or something is not tracked, else 0."""
    return 1 if context.failures or context.tracking_lost else 0


def close(context: RunContext, figures: Path, seconds: float) -> None:
    """Where everything is, what it took, and what went wrong."""
    context.say(f"Figures and tables: {figures}")
    uri = shown_uri()
    context.say(f"Runs: {uri}" if uri.startswith("http") else "Runs: type `proser ui`")
    ran = ", ".join(f"{stage} {duration(each)}" for stage, each in context.store.ran.items())
    context.say(f"Time: {duration(seconds)}" + (f" ({ran})" if ran else "; every stage was found finished"))
    say_what_went_wrong(context)


def say_what_went_wrong(context: RunContext) -> None:
    """Trials that failed, and what was left untracked."""
    for failure in context.failures:
        context.say(f"failed: {failure}")
    if context.tracking_lost:
        context.say(
            f"not tracked: the server {shown_uri()} went away ({context.tracking_lost}); all results are in "
            f"{shown(context.store)}, and the same command logs the rest once it answers"
        )
