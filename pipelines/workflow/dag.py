"""The workflow as a Hamilton DAG: each public function is a node, its arguments are its inputs.

A node names what its stage depends on; the store decides from it whether the stage runs.
"""

from contextlib import nullcontext
from typing import Any

from pipelines.tracking.registry import Registered
from pipelines.workflow.context import RunContext
from proser_core.config import Recipe, decisive_fields, digest_of, to_json
from proser_core.store.code_version import code_version
from proser_core.store.files import read_json, sha256_of
from proser_core.store.store import Artefact


def prepared(recipe: Recipe, context: RunContext) -> Artefact:
    """Images by role: train, val, development, test."""
    from pipelines.workflow.stages.prepare import prepare_task

    return prepare_task(recipe, context)


def pretrained(recipe: Recipe, context: RunContext, prepared: Artefact) -> Artefact:
    """Closed-set weights, and their logits on every image."""
    from pipelines.workflow.stages.pretrain import pretrain

    return pretrain([recipe], [prepared], context)[0]


def swept(recipe: Recipe, context: RunContext, prepared: Artefact, pretrained: Artefact) -> Artefact:
    """Every fine-tune of the run, trained and evaluated."""
    from pipelines.workflow.stages.finetune import Base, read_trials, record, sweep

    inputs = {
        "task": prepared.digest,
        "pretrained": pretrained.digest,
        "recipe": decisive_fields(recipe),
        "bf16": context.bf16,
        "finetunes": [to_json(tuned) for tuned in context.finetunes],
        "code": code_version("pipelines.workflow.stages.finetune"),
    }
    base = Base(recipe, prepared, pretrained)
    artefact = context.store.run("sweep", inputs, lambda folder: sweep([base], context, folder))
    record(read_trials(artefact), context)
    return artefact


def evaluated(
    recipe: Recipe, context: RunContext, prepared: Artefact, pretrained: Artefact, swept: Artefact
) -> Artefact:
    """The selected trial as a classifier, beside its controls."""
    inputs = {
        "task": prepared.digest,
        "pretrained": pretrained.digest,
        "swept": swept.digest,
        "recipe": decisive_fields(recipe),
        "proxy": "" if context.proxy is None else digest_of(context.proxy.results),
        "code": code_version("pipelines.workflow.stages.evaluate"),
    }

    def build(folder: Any) -> None:
        from pipelines.workflow.stages.evaluate import evaluate_stage

        evaluate_stage(recipe, prepared, pretrained, swept, context, folder)

    return context.store.run("evaluate", inputs, build)


def reported(recipe: Recipe, context: RunContext, prepared: Artefact, swept: Artefact, evaluated: Artefact) -> Artefact:
    """Tables and figures."""
    inputs = {
        "task": prepared.digest,
        "swept": swept.digest,
        "evaluated": evaluated.digest,
        "recipe": decisive_fields(recipe),
        "code": code_version("pipelines.workflow.stages.report"),
    }

    def build(folder: Any) -> None:
        from pipelines.workflow.stages.report import report

        report(recipe, prepared, swept, evaluated, context, folder)

    artefact = context.store.run("report", inputs, build)
    evaluation = read_json(evaluated.path / "evaluation.json")
    context.track(lambda: context.parent.results(artefact, evaluation))
    return artefact


def registered(recipe: Recipe, context: RunContext, evaluated: Artefact, reported: Artefact) -> Registered | None:
    """The classifier as a version in the model registry; None where the tracking server went away."""
    from pipelines.tracking.registry import register

    tags = {"proser.recipe": recipe.name, "proser.report": reported.digest}
    folder = evaluated.path / "classifier"
    digest = sha256_of(folder / "classifier.json")
    parent, made = context.parent, []
    context.track(
        lambda: made.append(
            register(parent.client, nullcontext(parent.run_id), recipe.model_name, folder, digest, tags)
        )
    )
    context.settle()
    return made[0] if made else None
