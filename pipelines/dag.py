"""The workflow as a Hamilton DAG: each public function is a node, its arguments are its inputs.

A node names what its stage depends on; the store decides from it whether the stage runs.
"""

from typing import Any

from pipelines.context import RunContext
from pipelines.tracking.registry import Registered
from proser_core.config import Recipe, decisive_fields, to_json
from proser_core.jobs.code_version import code_version
from proser_core.jobs.files import read_json, sha256_of
from proser_core.jobs.spec import PREPARE, PRETRAIN, TRIALS, job_inputs, read_epochs
from proser_core.jobs.store import Artefact


def prepared(recipe: Recipe, context: RunContext) -> Artefact:
    """Images by role: train, val, development, test."""
    from proser_core.jobs.preparing import check_batches, prepare

    inputs = {**context.data_inputs, "code": code_version("proser_core.jobs.preparing")}
    store = context.store
    artefact = store.run(PREPARE, inputs, lambda folder: prepare(recipe, context.data_dir, folder, store))
    check_batches(recipe, context.finetunes, artefact.path)
    return artefact


def pretrained(recipe: Recipe, context: RunContext, prepared: Artefact) -> Artefact:
    """Closed-set weights, and their logits on every image."""
    own = sha256_of(context.pretrained_file) if context.pretrained_file else ""
    inputs = job_inputs("pretrain", recipe, prepared, own, context.bf16, code_version("proser_core.jobs.worker"))

    def build(folder: Any) -> None:
        from pipelines.stages.pretrain import pretrain

        pretrain(recipe, prepared, context, folder)

    artefact = context.store.run(PRETRAIN, inputs, build)
    context.parent.curve("pretrain", read_epochs(artefact.path))
    return artefact


def swept(recipe: Recipe, context: RunContext, prepared: Artefact, pretrained: Artefact) -> Artefact:
    """Every fine-tune of the run, trained and evaluated."""
    from pipelines.stages.sweep import read_trials, sweep

    inputs = {
        "task": prepared.digest,
        "pretrained": pretrained.digest,
        "recipe": decisive_fields(recipe),
        "bf16": context.bf16,
        "finetunes": [to_json(tuned) for tuned in context.finetunes],
        "code": code_version("pipelines.stages.sweep"),
    }

    def build(folder: Any) -> Any:
        return sweep(recipe, prepared, pretrained, context, code_version("proser_core.jobs.worker"), folder)

    artefact = context.store.run("sweep", inputs, build)
    for row in read_trials(artefact):
        if row["status"] != "finished":
            context.failures.append(f"{row['name']}: {row['reason']}")
        context.parent.track_trial(row, read_epochs(context.store.root / TRIALS / row["key"]))
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
        "code": code_version("pipelines.stages.evaluate"),
    }

    def build(folder: Any) -> None:
        from pipelines.stages.evaluate import evaluate_stage

        evaluate_stage(recipe, prepared, pretrained, swept, context, folder)

    return context.store.run("evaluate", inputs, build)


def reported(recipe: Recipe, context: RunContext, prepared: Artefact, swept: Artefact, evaluated: Artefact) -> Artefact:
    """Tables and figures."""
    inputs = {
        "task": prepared.digest,
        "swept": swept.digest,
        "evaluated": evaluated.digest,
        "recipe": decisive_fields(recipe),
        "code": code_version("pipelines.stages.report"),
    }

    def build(folder: Any) -> None:
        from pipelines.stages.report import report

        report(recipe, prepared, swept, evaluated, context, folder)

    artefact = context.store.run("report", inputs, build)
    evaluation = read_json(evaluated.path / "evaluation.json")
    context.parent.results(artefact, evaluation)
    return artefact


def registered(recipe: Recipe, context: RunContext, evaluated: Artefact, reported: Artefact) -> Registered:
    """The classifier as a version in the model registry."""
    from pipelines.tracking.registry import register

    tags = {"proser.recipe": recipe.name, "proser.report": reported.digest}
    folder = evaluated.path / "classifier"
    digest = sha256_of(folder / "classifier.json")
    return register(context.parent.client, context.parent.run_id, recipe.model_name, folder, digest, tags)
