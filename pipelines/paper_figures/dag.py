"""The figures of the paper as a Hamilton node; the stages before it are those of a run."""

from pathlib import Path
from typing import Any

from pipelines.context import RunContext
from proser_core.config import Recipe, decisive_fields
from proser_core.jobs.code_version import code_version
from proser_core.jobs.store import Artefact


def drawn(
    recipe: Recipe,
    context: RunContext,
    prepared: Artefact,
    pretrained: Artefact,
    swept: Artefact,
    outliers: dict[str, tuple[str, ...]],
    command: str,
) -> Artefact:
    """All figures. `outliers` are names of outlier sets by that of their known data set; what is not there is left
    out, and said. `command` is what the user typed."""
    from pipelines.reproduction.page import template_digests
    from proser_core.data.outlier_sets import outlier_fingerprints
    from proser_core.data.sources import fingerprints

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
        "command": command,
        "code": [code_version("pipelines.stages.paper_figures"), *template_digests()],
    }

    def build(folder: Path) -> None:
        from pipelines.stages.paper_figures import draw_figures

        draw_figures(recipe, prepared, pretrained, swept, context, found, command, folder)

    return context.store.run("figures", inputs, build)


def _found(outliers: dict[str, tuple[str, ...]], context: RunContext) -> dict[str, tuple[str, ...]]:
    """The sets whose images are in the data directory; of a data set that is not there, none."""
    from proser_core.data.outlier_sets import find_outliers
    from proser_core.data.sources import SOURCES, find_layout

    found = {}
    for known, names in outliers.items():
        there = tuple(name for name in names if find_outliers(name, context.data_dir) is not None)
        if find_layout(SOURCES[known], context.data_dir) and there:
            found[known] = there
        missing = [name for name in names if name not in found.get(known, ())]
        if missing:
            context.say(f"  no examples of {', '.join(missing)} beside {known}: the images are not there")
    return found
