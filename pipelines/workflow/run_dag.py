"""What a run does with its trials: choose and evaluate, draw, register. Nodes behind those of `training_dag`."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pipelines.tracking.registry import Registered, register
from pipelines.workflow.session import TrainingSession
from pipelines.workflow.stage import stage
from pipelines.workflow.stages.evaluate import CLASSIFIER, evaluate_run, read_evaluation
from pipelines.workflow.stages.report import report
from pipelines.workflow.training import TrainedSplit
from proser_core.digests import sha256_of
from proser_core.jobs.spec import TRIALS
from proser_core.recognition.classifier_files import CARD
from proser_core.recognition.validation_scores import Proxy
from proser_core.store.store import Artefact, Store


@stage("evaluate")
def evaluated(
    splits: list[TrainedSplit], trials: list[dict[str, Any]], proxy: Proxy | None, store: Store, folder: Path
) -> None:
    """The selected trial as a classifier, beside its controls."""
    (split,) = splits
    evaluate_run(split.recipe, split.task, split.pretrained, trials, store.root / TRIALS, proxy, folder)


@stage("report")
def reported(
    splits: list[TrainedSplit], trials: list[dict[str, Any]], evaluated: Artefact, store: Store, folder: Path
) -> None:
    """Tables and figures."""
    (split,) = splits
    report(split, trials, evaluated, store.root / TRIALS, folder)


def logged(evaluated: Artefact, reported: Artefact, session: TrainingSession) -> Artefact:
    """The report, in tracking too."""
    evaluation = read_evaluation(evaluated)
    session.tracking.track(lambda: session.run.results(reported, evaluation))
    return reported


def registered(
    splits: list[TrainedSplit], evaluated: Artefact, logged: Artefact, session: TrainingSession
) -> Registered | None:
    """The classifier as a version in the model registry; None where the tracking server went away."""
    (split,) = splits
    tags = {"proser.recipe": split.recipe.name, "proser.report": logged.digest}
    folder = evaluated.path / CLASSIFIER
    digest = sha256_of(folder / CARD)
    run, made = session.run, list[Registered]()

    def make() -> None:
        made.append(register(run.client, nullcontext(run.run_id), split.recipe.model_name, folder, digest, tags))

    session.tracking.track(make)
    session.tracking.settle()
    return made[0] if made else None
