"""One pipeline run: checks first, then the DAG, then the closing table."""

import contextlib
import logging
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pipelines.cluster import Cluster
from pipelines.context import RunContext
from pipelines.summary import terminal_tables
from pipelines.tracking.server import outages_named, tracking_uri
from proser_core.config import Recipe, decisive_fields, digest_of, from_json
from proser_core.errors import ConfigError
from proser_core.jobs.code_version import code_version
from proser_core.jobs.files import read_json, sha256_of
from proser_core.jobs.progress import duration
from proser_core.jobs.store import Store
from proser_core.processor import resolve_precision

if TYPE_CHECKING:
    from pipelines.tracking.runs import ParentRun

LAST_STAGE = "registered"


def run(recipe: Recipe, data_dir: Path | None, storage: Path, pretrained_file: Path | None, console: Console) -> int:
    """Run the recipe through every stage; the exit code is 1 where a trial failed, else 0.

    Whatever can be refused is refused before any work: raises ProserError.
    """
    started = time.monotonic()
    recipe = _with_absolute_path(recipe)
    console.print(f"{recipe.name}: storage {storage}, tracking {tracking_uri()}", highlight=False, soft_wrap=True)
    with outages_named():
        context = _open_context(recipe, data_dir, storage, pretrained_file, console)
        return finish(recipe, context, started)


def finish(recipe: Recipe, context: RunContext, started: float) -> int:
    """Run the DAG and print the closing table; the exit code as of `run`."""
    results = _execute(recipe, context)
    _close(recipe, context, results, time.monotonic() - started)
    return 1 if context.failures else 0


def _with_absolute_path(recipe: Recipe) -> Recipe:
    """Workers may run in another directory than the one in which the path was typed."""
    path = recipe.network.weights_file
    return replace(recipe, network=replace(recipe.network, weights_file=str(Path(path).absolute()))) if path else recipe


def _execute(recipe: Recipe, context: RunContext) -> dict[str, Any]:
    """Results of the nodes that the closing table needs; the parent run ends with what happened."""
    context.parent.start()
    try:
        results = _driver().execute(["prepared", "evaluated", "reported", LAST_STAGE], inputs=_inputs(recipe, context))
    except BaseException as error:
        with contextlib.suppress(Exception):  # what went wrong matters more than its mark
            context.parent.end("KILLED" if isinstance(error, KeyboardInterrupt) else "FAILED")
        raise
    context.parent.end("FINISHED")
    return results


def draw(recipe: Recipe, path: Path) -> None:
    """Write the graph of the stages: .dot as text, .svg, .png or .pdf through Graphviz.

    Raises ConfigError for another ending, or where Graphviz is not installed.
    """
    import graphviz

    endings = ("dot", "svg", "png", "pdf")
    ending = path.suffix.removeprefix(".")
    if ending not in endings or not path.parent.is_dir():
        raise ConfigError(f"--draw got {path}; need a file in a folder that exists, ending in {', '.join(endings)}")
    graph: Any = _driver().visualize_execution(
        [LAST_STAGE], inputs=_inputs(recipe, None), bypass_validation=True, hide_inputs=True, show_legend=False
    )
    if ending == "dot":
        path.write_text(graph.source)
        return
    try:
        path.write_bytes(graph.pipe(format=ending))
    except graphviz.ExecutableNotFound as error:
        raise ConfigError(
            f"drawing {path} needs Graphviz's program `dot`, which is not installed; "
            "install graphviz, or give a .dot file"
        ) from error


def _open_context(
    recipe: Recipe, data_dir: Path | None, storage: Path, pretrained_file: Path | None, console: Console
) -> RunContext:
    """Check everything that can be checked early, and connect to what answers."""
    from pipelines.stages.pretrain import check_weights
    from pipelines.stages.sweep import finetunes_of
    from proser_core.jobs.preparing import check_split, prepare_inputs
    from proser_core.jobs.trials import check_recipe

    check_recipe(recipe)
    finetunes = finetunes_of(recipe)
    if pretrained_file is not None:
        check_weights(recipe, pretrained_file)
    check_split(recipe, data_dir)
    data = prepare_inputs(recipe, data_dir)
    store = Store(storage, announce=lambda stage: console.print(stage, highlight=False))
    cluster = Cluster(recipe.cluster, store.root)
    cluster.check()
    bf16 = resolve_precision(recipe)
    parent = open_parent(recipe, data, bf16, [sha256_of(pretrained_file) if pretrained_file else ""])
    return RunContext(store, cluster, parent, console, data_dir, data, pretrained_file, bf16, finetunes)


def open_parent(recipe: Recipe, data: dict[str, Any], bf16: bool, more: list[Any]) -> "ParentRun":
    """The MLflow run of this recipe, these `prepare_inputs` and whatever `more` decides the outcome."""
    from pipelines.tracking.runs import ParentRun

    sizes = [file[:2] for file in data["files"]]  # without the time of change, which decides nothing by itself
    decisive = [recipe.name, sizes, bf16, *more]
    run_key = digest_of(decisive_fields(recipe), decisive, code_version("pipelines.dag"))
    params = {
        "recipe": recipe.name,
        "space": recipe.space,
        "split_index": recipe.data.split_index,
        "seed": recipe.seed,
        "precision": "bf16" if bf16 else "fp32",
        "backbone": recipe.network.backbone,
        "pretrain_epochs": recipe.pretrain.epochs,
        "finetune_epochs": recipe.finetune.epochs,
    }
    return ParentRun.open(recipe.name, run_key, params, {"proser.recipe": recipe.name})


def _driver() -> Any:
    os.environ.setdefault("HAMILTON_TELEMETRY_ENABLED", "false")
    from hamilton import driver

    logging.getLogger("hamilton").setLevel(logging.CRITICAL)  # it would frame a user's mistake as a crash
    from pipelines import dag

    return driver.Builder().with_modules(dag).build()


def _inputs(recipe: Recipe, context: RunContext | None) -> dict[str, Any]:
    return {"recipe": recipe, "context": context}


def _close(recipe: Recipe, context: RunContext, results: dict[str, Any], seconds: float) -> None:
    from pipelines.tracking.registry import CANDIDATE, CHAMPION
    from proser_core.data.splits import ClassSplit

    split = from_json(ClassSplit, read_json(results["prepared"].path / "task.json")["split"])
    evaluation = read_json(results["evaluated"].path / "evaluation.json")
    registered = results[LAST_STAGE]
    context.console.print()
    for table in terminal_tables(recipe.name, evaluation, split):
        context.console.print(table)
    ran = ", ".join(f"{stage} {duration(each)}" for stage, each in context.store.ran.items())
    context.say(f"Selected on development data: {evaluation['selected']['name']}")
    aliases = f" ({', '.join(registered.aliases)})" if registered.aliases else ""
    context.say(f"Model: models:/{registered.name}/{registered.version}{aliases}")
    if CHAMPION not in registered.aliases:
        context.say(
            f"The champion is still an earlier version; to try this one, load models:/{registered.name}@{CANDIDATE}"
        )
    context.say(f"Figures and tables: {results['reported'].path}")
    uri = tracking_uri()
    context.say(f"Runs: {uri}" if uri.startswith("http") else "Runs: type `proser ui`")
    context.say(f"Time: {duration(seconds)}" + (f" ({ran})" if ran else "; every stage was found finished"))
    for failure in context.failures:
        context.say(f"failed: {failure}")
