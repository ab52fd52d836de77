"""One pipeline run: checks first, then the DAG, then the closing table."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pipelines.cluster.cluster import Cluster
from pipelines.cluster.scaling import largest_cluster
from pipelines.console import say
from pipelines.output_files import check_output, write_output
from pipelines.reports.summary import terminal_tables
from pipelines.storage.mirror import mirror_of
from pipelines.tracking.server import shown_uri, tracking_errors
from pipelines.workflow.context import RunContext
from pipelines.workflow.session import (
    check_apart,
    check_storage,
    close,
    common_params,
    data_sizes,
    driver_of,
    execute,
    exit_code,
    opened,
    say_defects,
    with_absolute_path,
)
from proser_core.config import Recipe, decisive_fields, digest_of, from_json
from proser_core.errors import ConfigError
from proser_core.processor import resolve_precision
from proser_core.store.code_version import code_version
from proser_core.store.files import read_json, sha256_of
from proser_core.store.store import Store

if TYPE_CHECKING:
    from pipelines.tracking.registry import Registered
    from pipelines.tracking.runs import ParentRun

LAST_STAGE = "registered"


def run(
    recipe: Recipe,
    data_dir: Path | None,
    storage: Path | str,
    pretrained_file: Path | None,
    console: Console,
    cluster_file: Path | None = None,
) -> int:
    """Run the recipe through every stage; the exit code is 1 where a trial failed or tracking was lost, else 0.

    Whatever can be refused is refused before any work: raises ProserError.
    """
    started = time.monotonic()
    recipe = with_absolute_path(recipe)
    with begun(recipe, data_dir, storage, console, f"proser run {recipe.name}", cluster_file) as open_context:
        if not recipe.data.knows_all:
            return finish(recipe, open_context(recipe, pretrained_file=pretrained_file), started)
        if pretrained_file is not None:
            raise ConfigError(
                "--pretrained got a checkpoint, and data.num_known is 0: the proxy has other classes than it. Give "
                "data.num_known and what is unknown, or weights of a backbone with network.weights_file"
            )
        from pipelines.workflow.refit import choose_and_refit
        from proser_core.data.catalogue import count_classes

        return choose_and_refit(recipe, count_classes(recipe.data.name, data_dir), open_context, started)


@contextmanager
def begun(
    recipe: Recipe, data_dir: Path | None, storage: Path | str, console: Console, work: str, cluster_file: Path | None
) -> Iterator[Callable[..., RunContext]]:
    """What every run begins with: the storage held for `work` alone, and the nodes that it may ask for.

    Gives what opens the context of a recipe, with its `pretrained_file`.
    """
    check_storage(recipe, storage)
    check_apart(recipe, data_dir, storage)
    say(console, f"{recipe.name}: storage {storage}, tracking {shown_uri()}")
    say_defects(recipe, data_dir, console)
    with opened(storage, console, work) as store, tracking_errors():
        cluster = Cluster(recipe.cluster, store.root, grows_to=largest_cluster(cluster_file), mirror=mirror_of(store))
        yield partial(_open_context, data_dir=data_dir, store=store, cluster=cluster, console=console)


def finish(recipe: Recipe, context: RunContext, started: float) -> int:
    """Run the DAG and print the closing table; the exit code as of `run`."""
    results = run_stages(recipe, context, LAST_STAGE)
    print_results(recipe, context, results)
    _say_model(context, results[LAST_STAGE])
    close(context, results["reported"].path, time.monotonic() - started)
    return exit_code(context)


def run_stages(recipe: Recipe, context: RunContext, last: str) -> dict[str, Any]:
    """The DAG as far as `last`: the outcome of it, and of the stages that a closing table is made of."""
    from pipelines.workflow import dag

    targets = dict.fromkeys(["prepared", "evaluated", "reported", last])
    return execute([dag], [*targets], {"recipe": recipe, "context": context}, context)


def draw(recipe: Recipe, path: Path) -> None:
    """Write the graph of the stages: .dot as text, .svg, .png or .pdf through Graphviz.

    Raises ConfigError for another ending, a path that cannot be written, or where Graphviz is not installed.
    """
    import graphviz

    check_output(path, "--draw", (".dot", ".svg", ".png", ".pdf"))
    from pipelines.workflow import dag

    inputs = {"recipe": recipe, "context": None}
    graph: Any = driver_of(dag).visualize_execution(
        [LAST_STAGE], inputs=inputs, bypass_validation=True, hide_inputs=True, show_legend=False
    )
    if path.suffix == ".dot":
        write_output(path, graph.source.encode())
        return
    try:
        write_output(path, graph.pipe(format=path.suffix.removeprefix(".")))
    except graphviz.ExecutableNotFound as error:
        raise ConfigError(
            f"drawing {path} needs Graphviz's program `dot`, which is not installed; "
            "install graphviz, or give a .dot file"
        ) from error


def _open_context(
    recipe: Recipe,
    data_dir: Path | None,
    store: Store,
    cluster: Cluster,
    pretrained_file: Path | None,
    console: Console,
    keyed_by: Recipe | None = None,
) -> RunContext:
    """Check everything that can be checked early, and connect to what answers.

    The parent run is that of `keyed_by`, where the recipe itself is still to be decided.
    """
    from pipelines.workflow.stages.finetune import finetunes_of, points_of
    from pipelines.workflow.stages.pretrain import check_weights
    from proser_core.jobs.preparing import check_split, prepare_inputs
    from proser_core.jobs.trials import check_recipe

    check_recipe(recipe)
    points = points_of(recipe, recipe.space)
    if pretrained_file is not None:
        check_weights(recipe, pretrained_file)
    check_split(recipe, data_dir)
    data = {recipe.data.split_index: prepare_inputs(recipe, data_dir)}
    cluster.check()
    bf16 = resolve_precision(recipe)
    decisive = [sha256_of(pretrained_file) if pretrained_file else ""]
    if keyed_by is not None:
        decisive.append(code_version("pipelines.workflow.refit"))
    parent = open_parent(keyed_by or recipe, data, bf16, decisive)
    finetunes, spaces = finetunes_of(recipe, points), {recipe.space: points} if recipe.space else {}
    return RunContext(store, cluster, parent, console, data_dir, data, pretrained_file, bf16, finetunes, spaces)


def open_parent(recipe: Recipe, data: dict[int, dict[str, Any]], bf16: bool, more: list[Any]) -> "ParentRun":
    """The MLflow run of this recipe, these `prepare_inputs` by split and whatever `more` decides the outcome."""
    from pipelines.tracking.runs import ParentRun

    decisive = [recipe.name, data_sizes(data.values()), bf16, *more]
    run_key = digest_of(decisive_fields(recipe), decisive, code_version("pipelines.workflow.dag"))
    params = {**common_params(recipe, bf16), "space": recipe.space, "split_index": recipe.data.split_index}
    return ParentRun.open(recipe.name, run_key, params, {"proser.recipe": recipe.name})


def print_results(recipe: Recipe, context: RunContext, results: dict[str, Any]) -> None:
    """The closing table, and what was chosen."""
    from proser_core.data.splits.class_split import ClassSplit

    split = from_json(ClassSplit, read_json(results["prepared"].path / "task.json")["split"])
    evaluation = read_json(results["evaluated"].path / "evaluation.json")
    context.console.print()
    for table in terminal_tables(recipe.name, evaluation, split):
        context.console.print(table)
    if recipe.data.has_development:
        context.say(f"Selected on development data: {evaluation['selected']['name']}")


def _say_model(context: RunContext, registered: "Registered | None") -> None:
    from pipelines.tracking.registry import CANDIDATE, CHAMPION

    if registered is not None:
        aliases = f" ({', '.join(registered.aliases)})" if registered.aliases else ""
        context.say(f"Model: models:/{registered.name}/{registered.version}{aliases}")
        if CHAMPION not in registered.aliases:
            context.say(
                f"The champion is still an earlier version; to try this one, load models:/{registered.name}@{CANDIDATE}"
            )
