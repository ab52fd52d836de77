"""`proser run RECIPE`: train on images and register a calibrated open-set classifier."""

import time
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.commands.parsing import parse_with_recipe
from pipelines.console import console, say
from pipelines.output_files import check_output, write_output
from pipelines.tracking.server import check_tracking
from pipelines.workflow.requests import RunRequest
from proser_core.errors import ConfigError


def main(arguments: list[str]) -> int:
    """Run, or draw what would run."""
    request = parse_with_recipe(RunRequest, "run", arguments)
    if request.draw is None:
        return run_recipe(request, console())
    draw_stages(request.draw)
    say(console(), f"written: {request.draw}")
    return 0


def run_recipe(request: RunRequest, console: Console) -> int:
    """Take the recipe through every stage, from images to a registered classifier, or print the plan; exit code 1 where
    a trial failed or tracking was lost. Raises ProserError before any work for whatever can be refused."""
    from pipelines.workflow.checks import check_request  # it loads torch, and neither ray nor mlflow

    recipe, data_dir, inputs = check_request(request)
    from pipelines.workflow.plan.printing import print_plans  # they load ray and mlflow
    from pipelines.workflow.refit import choose_and_refit, planned_inputs
    from pipelines.workflow.running import open_run_of, run_and_register
    from pipelines.workflow.session import announce, open_session
    from proser_core.data.data_sets import open_data_set

    started, storage = time.monotonic(), request.storage
    announce(recipe.name, request.recipe, recipe, data_dir, storage, console)
    work = f"proser run {recipe.name}"
    with open_session(recipe.cluster, storage, console, work, cluster_file=request.cluster_file) as session:
        if request.dry_run:
            check_tracking(dry_run=True)
        if inputs is None:
            num_classes = open_data_set(recipe.data.name, data_dir).num_classes
            if request.dry_run:
                print_plans(planned_inputs(recipe, num_classes, data_dir, session), session)
                return 0
            return choose_and_refit(recipe, num_classes, data_dir, session, started)
        session.cluster.check()
        if request.dry_run:
            print_plans({"": inputs}, session)
            return 0
        return run_and_register(inputs, session.follow(open_run_of(session.store, recipe, inputs)), started)


def draw_stages(path: Path) -> None:
    """Write the graph of the stages: .dot as text, .svg, .png or .pdf through Graphviz. Raises ConfigError for another
    ending, a path that cannot be written, or where Graphviz is not installed."""
    check_output(path, "--draw", (".dot", ".svg", ".png", ".pdf"))
    import graphviz

    from pipelines.workflow import dag  # it loads torch, ray and mlflow: not for --help
    from pipelines.workflow.running import REGISTERED
    from pipelines.workflow.session import driver_of

    graph: Any = driver_of(dag).visualize_execution(
        [REGISTERED], inputs={}, bypass_validation=True, hide_inputs=True, show_legend=False
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
