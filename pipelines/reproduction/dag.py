"""The last stage of a reproduction as a Hamilton node; the stages before it are those of a sweep."""

from pathlib import Path

from pipelines.workflow.context import RunContext
from proser_core.config import Recipe, decisive_fields
from proser_core.store.code_version import code_version
from proser_core.store.store import Artefact, Built


def compared(
    recipes: list[Recipe],
    methods: list[str],
    context: RunContext,
    prepared: list[Artefact],
    pretrained: list[Artefact],
    swept: Artefact,
) -> Artefact:
    """Every method on every class split, calibrated and evaluated alike."""
    inputs = {
        "recipes": [decisive_fields(recipe) for recipe in recipes],
        "methods": methods,
        "tasks": [task.digest for task in prepared],
        "pretrained": [net.digest for net in pretrained],
        "swept": swept.digest,
        "code": code_version("pipelines.reproduction.comparing"),
    }

    def build(folder: Path) -> Built:
        from pipelines.reproduction.comparing import compare
        from pipelines.workflow.stages.finetune import Base

        bases = [Base(*parts) for parts in zip(recipes, prepared, pretrained, strict=True)]
        return compare(bases, methods, context, folder)

    return context.store.run("compare", inputs, build)
