"""`proser reproduce figures`: the figures of the paper, from the trainings of the recipe `figures-mnist`."""

import time
from pathlib import Path

from rich.console import Console

from pipelines.reports.page import HTML
from pipelines.reproduction.protocols import STUDIES
from pipelines.workflow.run import begun
from pipelines.workflow.session import close, execute, exit_code, with_absolute_path
from proser_core.config import Recipe

LAST_STAGE = "paged"


def reproduce_figures(
    recipe: Recipe,
    data_dir: Path | None,
    storage: Path | str,
    console: Console,
    cluster_file: Path | None = None,
    command: str = "proser reproduce figures",
) -> int:
    """Train what is missing, and draw; the exit code as of a run. Raises ProserError for what is refused. `command` is
    what the user typed, for the report."""
    from pipelines.reproduction.paper_figures import dag as figures
    from pipelines.reproduction.paper_figures.stage import check_drawable
    from pipelines.workflow import dag

    started = time.monotonic()
    recipe = with_absolute_path(recipe)
    check_drawable(recipe)
    outliers = {study.data.name: study.data.outliers for study in STUDIES.values() if study.data.outliers}
    with begun(recipe, data_dir, storage, console, "proser reproduce figures", cluster_file) as open_context:
        context = open_context(recipe, pretrained_file=None)
        inputs = {"recipe": recipe, "context": context, "outliers": outliers, "command": command}
        page = execute([dag, figures], [LAST_STAGE], inputs, context)[LAST_STAGE]
        context.track(lambda: context.parent.report(page))
        context.settle()
        context.say(f"Report: {page.path / HTML}")
        close(context, page.path, time.monotonic() - started)
        return exit_code(context)
