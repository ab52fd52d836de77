"""A sweep over search spaces and class splits as a Hamilton DAG: each public function is a node.

The stages are those of a run; here each serves all class splits, so that the cluster is shared by all
of their trainings at a time.
"""

from typing import Any

from pipelines.workflow.context import RunContext
from proser_core.config import Recipe, decisive_fields, to_json
from proser_core.store.code_version import code_version
from proser_core.store.store import Artefact
from tune_spaces import told


def prepared(recipes: list[Recipe], context: RunContext) -> list[Artefact]:
    """Images by role, of each class split."""
    from pipelines.workflow.stages.prepare import prepare_task

    return [prepare_task(recipe, context) for recipe in recipes]


def pretrained(recipes: list[Recipe], context: RunContext, prepared: list[Artefact]) -> list[Artefact]:
    """Closed-set weights and logits, of each class split."""
    from pipelines.workflow.stages.pretrain import pretrain

    return pretrain(recipes, prepared, context)


def swept(recipes: list[Recipe], context: RunContext, prepared: list[Artefact], pretrained: list[Artefact]) -> Artefact:
    """Every fine-tune on every class split, trained and evaluated."""
    from pipelines.workflow.stages.finetune import read_trials, record, sweep

    inputs = {
        **_inputs(recipes, prepared, pretrained),
        "bf16": context.bf16,
        "finetunes": [to_json(tuned) for tuned in context.finetunes],
        "spaces": list(context.spaces),
        "code": code_version("pipelines.workflow.stages.finetune"),
    }
    bases = _bases(recipes, prepared, pretrained)
    artefact = context.store.run("sweep", inputs, lambda folder: sweep(bases, context, folder))
    record(read_trials(artefact), context)
    return artefact


def reported(
    recipes: list[Recipe], context: RunContext, prepared: list[Artefact], pretrained: list[Artefact], swept: Artefact
) -> Artefact:
    """Tables and figures over all splits, in tracking too."""
    inputs = {
        **_inputs(recipes, prepared, pretrained),
        "swept": swept.digest,
        "published": [repr(told(space)) for space in context.spaces],
        "code": code_version("pipelines.workflow.stages.sweep_report"),
    }
    bases = _bases(recipes, prepared, pretrained)

    def build(folder: Any) -> None:
        from pipelines.workflow.stages.sweep_report import report
        from pipelines.workflow.stages.tabulate import tabulate

        report(tabulate(bases, swept, context), recipes[0], folder)

    artefact = context.store.run("report", inputs, build)
    context.track(lambda: context.parent.report(artefact))
    return artefact


def _bases(recipes: list[Recipe], prepared: list[Artefact], pretrained: list[Artefact]) -> Any:
    from pipelines.workflow.stages.finetune import Base

    return [Base(*parts) for parts in zip(recipes, prepared, pretrained, strict=True)]


def _inputs(recipes: list[Recipe], prepared: list[Artefact], pretrained: list[Artefact]) -> dict[str, Any]:
    return {
        "recipes": [decisive_fields(recipe) for recipe in recipes],
        "tasks": [task.digest for task in prepared],
        "pretrained": [net.digest for net in pretrained],
    }
