"""The figures of the paper as a Hamilton node; the stages before it are those of a run."""

from pathlib import Path
from typing import Any

from pipelines.workflow.context import RunContext
from proser_core.config import Recipe, decisive_fields
from proser_core.store.code_version import code_version
from proser_core.store.store import Artefact


def drawn(
    recipe: Recipe,
    context: RunContext,
    prepared: Artefact,
    pretrained: Artefact,
    swept: Artefact,
    outliers: dict[str, tuple[str, ...]],
) -> Artefact:
    """All figures. `outliers` are names of outlier sets by that of their known data set; what is not there is left
    out, and said."""
    from proser_core.data.catalogue import fingerprints
    from proser_core.data.outliers.outlier_sets import outlier_fingerprints

    found = _found(outliers, context)
    files: list[Any] = [fingerprints(known, context.data_dir) for known in found]
    files += [outlier_fingerprints(name, context.data_dir) for names in found.values() for name in names]
    inputs = {
        "task": prepared.digest,
        "pretrained": pretrained.digest,
        "swept": swept.digest,
        "recipe": decisive_fields(recipe),
        "outliers": {known: list(names) for known, names in found.items()},
        "files": files,
        "code": code_version("pipelines.reproduction.paper_figures.stage"),
    }

    def build(folder: Path) -> None:
        from pipelines.reproduction.paper_figures.stage import draw_figures

        draw_figures(recipe, prepared, pretrained, swept, context, found, folder)

    return context.store.run("figures", inputs, build)


def paged(context: RunContext, drawn: Artefact, command: str) -> Artefact:
    """The figures on one page; `command` is what the user typed."""
    from pipelines.reports.page import template_digests
    from pipelines.reproduction.paper_figures.page import write_figures_page

    code = [code_version("pipelines.reproduction.paper_figures.page"), *template_digests()]
    inputs = {"drawn": drawn.digest, "command": command, "code": code}
    return context.store.run("reproduction", inputs, lambda folder: write_figures_page(drawn.path, command, folder))


def _found(outliers: dict[str, tuple[str, ...]], context: RunContext) -> dict[str, tuple[str, ...]]:
    """The sets whose images are in the data directory; of a data set that is not there, none."""
    from proser_core.data.catalogue import SOURCES, find_layout
    from proser_core.data.outliers.outlier_sets import find_outliers

    found = {}
    for known, names in outliers.items():
        there = tuple(name for name in names if find_outliers(name, context.data_dir) is not None)
        if find_layout(SOURCES[known], context.data_dir) and there:
            found[known] = there
        missing = [name for name in names if name not in found.get(known, ())]
        if missing:
            context.say(f"  no examples of {', '.join(missing)} beside {known}: the images are not there")
    return found
