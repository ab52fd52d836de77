"""Networks that a reproduction trained as classifiers in the model registry, to be promoted and served."""

from collections.abc import Sequence
from pathlib import Path

from pipelines.reproduction.classifiers import classifier_of
from pipelines.reproduction.trained_networks import network_of
from pipelines.tracking.data_sets import data_sets
from pipelines.tracking.registry import Registered, register
from pipelines.tracking.runs import PARENT_TAG, TRIAL_KEY, run_of_its_own
from pipelines.workflow.session import TrainingSession
from pipelines.workflow.stage import decisive, stage_code
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.baselines import METHODS, Method
from proser_core.config.own_networks import ScheduleName
from proser_core.digests import sha256_of
from proser_core.errors import ProserError
from proser_core.recognition.classifier_files import CARD
from proser_core.store.store import Artefact, load_if_complete


def register_methods(
    names: Sequence[str], split: TrainedSplit, schedule: ScheduleName, session: TrainingSession
) -> list[Registered]:
    """The classifiers of the methods on a class split as versions of the recipe's model, in this order; the last one is
    the candidate. Prints which they are, and methods that are left out because they were not trained."""
    versions: list[Registered] = []

    def add(name: str, classifier: Artefact) -> None:
        versions.append(_register(name, classifier, split, session))
        session.say(f"registered: {name}: {versions[-1].in_words()}")

    for name in names:
        try:
            found = _saved(METHODS[name], split, schedule, session)
        except ProserError as error:
            session.say(f"not registered: {name}: {error}")
        else:
            session.tracking.track(add, name, found)
    session.tracking.settle()
    return versions


def _register(name: str, classifier: Artefact, split: TrainedSplit, session: TrainingSession) -> Registered:
    """Each has a run of its own below that of the study, which would show the metrics of one as those of all."""
    recipe, digest = split.recipe, sha256_of(classifier.path / CARD)
    tags = {"proser.recipe": recipe.name, "proser.method": name}
    client, inputs = session.run.client, data_sets(recipe, split.task)
    below = {PARENT_TAG: session.run.run_id, TRIAL_KEY: f"method-{digest[:16]}"}
    run = run_of_its_own(client, f"register {name}", below)
    return register(client, run, recipe.model_name, classifier.path, digest, tags, inputs)


def _saved(method: Method, split: TrainedSplit, schedule: ScheduleName, session: TrainingSession) -> Artefact:
    """The classifier's folder, found or made now."""
    network = network_of(method, split, schedule, session.store)
    if network is None:
        raise ProserError("its fine-tune failed")
    trained = load_if_complete(network.folder)
    assert trained is not None
    inputs = {
        "method": method.name,
        "network": trained.digest,
        "task": split.task.digest,
        "recipe": decisive(split.recipe),
        "schedule": schedule if method.network else "",
        "code": stage_code("classifiers"),
    }

    def save(folder: Path) -> None:
        classifier_of(method, network, split, schedule).save(folder)

    return session.store.run("classifiers", inputs, save)
