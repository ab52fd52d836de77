"""The list of a registry, and models that are not there or were changed."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import mlflow
import pytest
from pipeline_runs import printed
from registered_models import Registry, promoted, rolled_back, stored_card

from pipelines.commands.models import print_models
from pipelines.tracking.models import load
from pipelines.tracking.server import experiment_id
from proser_core.errors import CheckpointError, TrackingError
from proser_core.recognition.classifier_files import CARD, WEIGHTS
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.program import PROGRAM

pytestmark = pytest.mark.usefixtures("empty_figures", "empty_programs")


@pytest.mark.usefixtures("logged_once")
def test_the_list_has_every_version_with_its_aliases_and_figures(
    registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier
) -> None:
    assert experiment_id(registry.client)  # makes the database
    with pytest.raises(TrackingError, match=f"no version of a model '{registry.name}'; it has models: "):
        printed(print_models, registry.name)
    registry.add(bad)
    registry.add(classifier)
    _, text = printed(print_models, registry.name)
    newest, oldest = [line.split() for line in text.splitlines() if "digits" in line]
    assert newest[:3] == ["2", "candidate", "digits"]
    assert oldest[:3] == ["1", "champion", "digits"]
    assert newest[3] == f"{100 * classifier.results['dev/macro_f1']:.1f}"


@pytest.mark.usefixtures("logged_once")
def test_no_name_in_the_list_is_cut_at_80_columns(registry: Registry, classifier: OpenSetClassifier) -> None:
    registry.add(classifier)
    registry.client.set_model_version_tag(registry.name, "1", "proser.recipe", "cifar100-cpu-finetune")
    _, text = printed(print_models, registry.name, width=80)
    assert {"champion", "candidate", "cifar100-cpu-finetune"} <= set(text.split())
    assert {"macro-F1", "AUROC", "accuracy", "known"} <= set(text.split())
    assert max(len(line) for line in text.splitlines()[1:] if not line.startswith("other models: ")) <= 80


@pytest.mark.usefixtures("logged_once")
def test_the_list_of_one_model_names_the_others(registry: Registry, classifier: OpenSetClassifier) -> None:
    registry.add(classifier)
    other = replace(registry, name=f"a-{registry.name}")
    other.add(classifier)
    _, text = printed(print_models, registry.name)
    assert f"; --model-name {min(m.name for m in registry.client.search_registered_models())}" in text


@pytest.mark.usefixtures("logged_once", "few_resamples")
def test_a_name_with_an_apostrophe_which_the_ui_takes_is_one_like_others(
    registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier
) -> None:
    named = replace(registry, name=f"{registry.name}'s")
    for each in (bad, classifier):
        named.add(each)
    assert promoted(named)[0] == 0
    assert f"{named.name} in " in printed(print_models, named.name)[1]
    assert rolled_back(named) == "1"


@pytest.mark.usefixtures("logged_once")
@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("models:/other@champion", "no version of a model 'other'; it has models: .*NAME"),
        ("models:/NAME@best", "no alias 'best'; it has versions 1 and aliases @candidate, @champion"),
        ("models:/NAME/7", "no version '7'; it has versions 1"),
        (f"models:/NAME/{2**63}", f"no version '{2**63}'; it has versions 1"),
        ("models:/NAME", "need models:/NAME@ALIAS"),
    ],
)
def test_a_model_that_is_not_there_is_refused_with_what_there_is(
    registry: Registry, classifier: OpenSetClassifier, uri: str, reason: str
) -> None:
    registry.add(classifier)
    with pytest.raises(TrackingError, match=reason.replace(".*NAME", f".*{registry.name}")):
        load(uri.replace("NAME", registry.name))


def test_a_registered_model_that_was_changed_is_refused_by_name(
    registry: Registry, classifier: OpenSetClassifier
) -> None:
    registry.add(classifier)
    card = stored_card(registry)
    values = json.loads(card.read_text())
    values["calibration"]["bias"] += 1
    card.write_text(json.dumps(values))
    title, advice = f"version 1 of '{registry.name}'", f"; restore its artefacts ({card.parent}), or register it again"
    assert refusal(registry) == f"{title} is damaged: {CARD} was changed after it was saved{advice}"
    values["format"] = 99
    card.write_text(json.dumps(values))
    assert refusal(registry).startswith(f"{title} cannot be read: {CARD} has format 99; this version reads")
    card.unlink()
    missing = f"its folder is not an open-set classifier: {CARD} is missing"
    assert refusal(registry) == f"{title} is damaged: {missing}{advice}"


DAMAGES: dict[str, Callable[[Path], object]] = {
    "all files lost": lambda folder: shutil.rmtree(folder.parents[1]),
    "weights lost": lambda folder: (folder / WEIGHTS).unlink(),
    "weights changed": lambda folder: (folder / WEIGHTS).write_bytes(bytes((folder / WEIGHTS).stat().st_size)),
    "card changed": lambda folder: (folder / CARD).write_text((folder / CARD).read_text().replace("digits", "images")),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_version_that_cannot_be_loaded_is_uploaded_again_by_the_same_registration(
    registry: Registry, classifier: OpenSetClassifier, damage: str
) -> None:
    made = registry.add(classifier)
    DAMAGES[damage](stored_card(registry).parent)
    with pytest.raises((CheckpointError, TrackingError), match="register it again"):
        load(f"models:/{registry.name}/1")
    assert registry.add(classifier).version == made.version == "1"
    assert load(f"models:/{registry.name}/1").classifier.calibration == classifier.calibration
    assert mlflow.pyfunc.load_model(f"models:/{registry.name}/1").input_example is not None


def test_what_else_mlflow_reads_of_a_version_is_uploaded_again_where_it_is_lost(
    registry: Registry, classifier: OpenSetClassifier, tmp_path: Path
) -> None:
    registry.add(classifier)
    place = stored_card(registry).parents[2]
    for lost in ("MLmodel", "code", f"artifacts/{PROGRAM}"):
        shutil.move(place / lost, tmp_path)
        assert registry.add(classifier).version == "1"
        assert (place / lost).exists(), lost


def refusal(registry: Registry) -> str:
    with pytest.raises(CheckpointError) as refused:
        load(f"models:/{registry.name}@champion")
    return str(refused.value)
