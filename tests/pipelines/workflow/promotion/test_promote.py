"""Promotion on a real registry: what is refused, what is forced, what is written down."""

from dataclasses import replace
from pathlib import Path

import mlflow
import numpy as np
import pytest
from registered_models import Registry, classifier_of, of_photos, promoted

from pipelines.tracking import decisions
from pipelines.tracking.models import load
from pipelines.tracking.versions import CHOSEN_AMONG
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError, TrackingError
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.store.store import Artefact

pytestmark = pytest.mark.usefixtures("empty_figures", "empty_programs", "few_resamples", "logged_once")


@pytest.mark.parametrize("score", ["MSP", "OpenMax"])
def test_a_control_takes_the_place_of_a_network_with_placeholders(
    registry: Registry, bad: OpenSetClassifier, task: Artefact, closed_set_weights: Path, score: str
) -> None:
    registry.add(bad)
    control = classifier_of(task, closed_set_weights, control=score)
    registry.add(control)
    assert promoted(registry, tolerance=0.1)[0] == 0
    champion = load(f"models:/{registry.name}@champion")
    assert champion.version.number == "2"
    images = np.asarray(OpenSetTask.load(task.path).test.images[:20])
    expected = control.predict(images)
    np.testing.assert_array_equal(champion.classifier.predict(images).unknown_scores, expected.unknown_scores)
    served = mlflow.pyfunc.load_model(f"models:/{registry.name}@champion")
    assert served.predict({"image": images}).label.tolist() == expected.labels
    assert ("program" in served.metadata.flavors["python_function"]["artifacts"]) == (score != "OpenMax")


def test_the_test_models_differ_as_their_names_say(classifier: OpenSetClassifier, bad: OpenSetClassifier) -> None:
    assert classifier.results["dev/macro_f1"] > bad.results["dev/macro_f1"] + 0.1


def test_a_better_candidate_takes_the_champions_place_and_a_worse_one_is_refused(
    registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier
) -> None:
    registry.add(bad)
    registry.add(classifier)
    code, text = promoted(registry)
    assert (code, registry.champion) == (0, "2")
    assert f"promoted: {registry.name} version 2 is the champion now, instead of {registry.name} version 1" in text
    registry.add(replace(bad, recipe={**bad.recipe, "seed": 7}))
    code, text = promoted(registry)
    assert (code, registry.champion) == (1, "2")
    assert "objection: macro-F1:" in text
    assert f"refused: {registry.name} version 2 stays the champion" in text
    code, text = promoted(registry, force=True)
    assert (code, registry.champion) == (0, "3")
    kinds = [run.data.tags[decisions.KIND] for run in registry.decided()]
    assert kinds == [decisions.PROMOTED, decisions.REFUSED, decisions.FORCED]


def test_a_decision_is_a_run_with_a_report_its_intervals_and_a_figure(
    registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier
) -> None:
    registry.add(bad)
    registry.add(classifier)
    promoted(registry)
    (run,) = registry.decided()
    client = registry.client
    assert run.info.status == "FINISHED"
    assert {file.path for file in client.list_artifacts(run.info.run_id)} == {"decision.md", "comparison.png"}
    metrics = run.data.metrics
    assert metrics["candidate/macro_f1"] == pytest.approx(classifier.results["dev/macro_f1"])
    assert metrics["champion/auroc"] == pytest.approx(bad.results["dev/auroc"])
    assert metrics["champion/macro_f1"] == pytest.approx(bad.results["dev/macro_f1"]), "at its own bias"
    assert metrics["difference/macro_f1_low"] <= metrics["difference/macro_f1"] <= metrics["difference/macro_f1_high"]
    note = run.data.tags[decisions.NOTE]
    assert "Test metrics, which decide nothing" in note
    assert "| AUROC, 1 unknown |" in note


def test_a_candidate_that_was_chosen_on_the_images_of_the_comparison_is_marked(
    registry: Registry, classifier: OpenSetClassifier, bad: OpenSetClassifier
) -> None:
    registry.add(bad)
    registry.add(classifier)
    registry.client.set_model_version_tag(registry.name, "2", CHOSEN_AMONG, "25")
    text = " ".join(promoted(registry)[1].split())
    (run,) = registry.decided()
    for each in (text, run.data.tags[decisions.NOTE]):
        assert "version 2 was chosen among 25 points on validation images and development unknowns" in each
    registry.add(replace(bad, recipe={**bad.recipe, "seed": 7}))
    assert "was chosen among" not in promoted(registry)[1]


def test_test_figures_decide_nothing(registry: Registry, classifier: OpenSetClassifier) -> None:
    registry.add(classifier)
    worse = {name: 0.0 if name.startswith("test/") else value for name, value in classifier.results.items()}
    registry.add(replace(classifier, results=worse))
    assert promoted(registry, tolerance=0.1, force=True)[0] == 0
    assert registry.champion == "2"
    assert [run.data.tags[decisions.KIND] for run in registry.decided()] == [decisions.PROMOTED], "no force was needed"


def test_models_of_other_images_are_not_compared_but_can_be_forced(
    registry: Registry, classifier: OpenSetClassifier, of_other_images: OpenSetClassifier
) -> None:
    registry.add(classifier)
    registry.add(of_other_images)
    with pytest.raises(TrackingError, match="cannot be compared: their validation and development images"):
        promoted(registry)
    assert registry.champion == "1"
    assert promoted(registry, force=True)[0] == 0
    assert registry.champion == "2"
    assert "Objection: it could not be compared" in registry.decided()[0].data.tags[decisions.NOTE]


def test_it_says_which_classes_were_compared_where_photos_were_added(
    registry: Registry, classifier: OpenSetClassifier
) -> None:
    registry.add(of_photos(classifier, 0, "before"))
    registry.add(of_photos(classifier, 2, "after"))
    code, text = promoted(registry, tolerance=0.03)
    assert code == 0
    assert "a loss of up to 3 points is accepted" in text
    assert "classes that both know" in text


def test_without_a_champion_the_candidate_becomes_it(registry: Registry, classifier: OpenSetClassifier) -> None:
    registry.add(classifier)
    registry.client.delete_registered_model_alias(registry.name, "champion")
    code, text = promoted(registry, version="1")
    assert (code, registry.champion) == (0, "1")
    assert "there was none before" in text
    code, text = promoted(registry)
    assert "is the champion already; nothing to do" in text


@pytest.mark.parametrize("alias", ["latest", "v3", "prod.eu", ""])
def test_an_alias_that_mlflow_does_not_take_is_refused_before_anything(registry: Registry, alias: str) -> None:
    with pytest.raises(ConfigError, match=f"--alias got '{alias}'; need letters"):
        promoted(registry, alias=alias)


def test_another_alias_has_champions_of_its_own(registry: Registry, classifier: OpenSetClassifier) -> None:
    registry.add(classifier)
    assert promoted(registry, alias="prod-eu_1")[0] == 0
    assert registry.client.get_model_version_by_alias(registry.name, "prod-eu_1").version in (1, "1")
    registry.add(replace(classifier, recipe={**classifier.recipe, "seed": 7}))
    assert promoted(registry, tolerance=0.1)[0] == 0
    text = promoted(registry, alias="prod-eu_1", tolerance=0.1)[1]
    assert f"is the prod-eu_1 now, instead of {registry.name} version 1" in text


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"ensemble": 0, "best_of": "a"}, r"--ensemble got 0; need a number of trials from 1 to 10"),
        ({"ensemble": 11, "best_of": "a"}, r"--ensemble got 11; need a number of trials from 1 to 10"),
        ({"best_of": "a", "version": "1"}, r"--version and --best-of name two candidates"),
        ({"ensemble": 2}, r"--ensemble 2 is about the trials of a sweep; name the sweep with --best-of"),
        ({"split_index": 0}, r"--split-index 0 is about the trials of a sweep; name the sweep with --best-of"),
        ({"storage": Path("a")}, r"--storage a is about the trials of a sweep; name the sweep with --best-of"),
    ],
)
def test_an_ensemble_of_too_many_and_options_of_a_sweep_without_one_are_refused(
    registry: Registry, request_: dict, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        promoted(registry, **request_)


@pytest.mark.parametrize("tolerance", [2, 1, -0.02])
def test_a_tolerance_that_is_no_fraction_is_refused(registry: Registry, tolerance: float) -> None:
    with pytest.raises(ConfigError, match=f"--tolerance got {tolerance}; need a fraction"):
        promoted(registry, tolerance=tolerance)
