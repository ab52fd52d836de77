"""Images of one's own, all classes known: hyperparameters from a proxy, then all classes, in the same registry."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from own_digits import NAMES, VALUES, own_recipe
from pipeline_runs import RunFolder, printed
from walks import Walks, counted_walks, twice_walked

from pipelines.commands.calibrate import CalibrateRequest, calibrate
from pipelines.commands.run import run_recipe
from pipelines.tracking.models import LoadedModel, load
from pipelines.tracking.versions import CHOSEN_AMONG
from pipelines.workflow.best_of import register_best
from pipelines.workflow.promotion import promote
from pipelines.workflow.refit import proxy_of
from pipelines.workflow.requests import PromoteRequest, RunRequest
from proser_core.config import digest_of
from proser_core.data.readers import digits
from proser_core.data.splits.drawing import draw_split
from proser_core.errors import ConfigError
from proser_core.recognition.classifier_files import MODEL_CARD
from proser_core.recognition.model_card import model_card

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures", "empty_programs")


@pytest.fixture(scope="module")
def done(run_folder: RunFolder, my_images: Path) -> tuple[str, Walks]:
    """What a run prints, and the folders that it listed."""
    with counted_walks(my_images) as walks:
        code, text = printed(run_recipe, RunRequest(own_recipe(), my_images, run_folder.storage))
    assert code == 0
    return text, walks


@pytest.fixture(scope="module")
def text(done: tuple[str, Walks]) -> str:
    return done[0]


@pytest.fixture(scope="module")
def model(text: str) -> LoadedModel:
    return load("models:/proser@champion")


class TestRun:
    def test_the_model_knows_every_class_and_the_proxy_fewer(self, model: LoadedModel) -> None:
        assert model.classifier.class_names == NAMES
        proxy = model.classifier.proxy
        split = draw_split(proxy_of(own_recipe(), np.full(6, 60)).data, 6)
        drawn = ([NAMES[number] for number in numbers] for numbers in (split.development, split.unknown))
        assert [[*proxy.chose], [*proxy.reported]] == [*drawn]
        assert proxy.validation_scores.num_known == 4
        assert {"dev/macro_f1", "dev/auroc", "test/unknown_1/auroc"} <= set(proxy.results)
        assert not any("unknown" in name or name == "dev/macro_f1" for name in model.classifier.results)

    def test_each_folder_is_listed_once_for_both_trainings(self, done: tuple[str, Walks]) -> None:
        assert done[1]
        assert twice_walked(done[1]) == []

    def test_groups_and_flips_are_decided_once_and_told(self, text: str, model: LoadedModel) -> None:
        words = " ".join(text.split())
        found = re.findall(
            r"groups of images, class split 0: ([\d,]+) images of known classes form ([\d,]+), the", words
        )
        assert len(found) == 2  # of the proxy and of all classes
        assert found[1][0] == "360"
        assert "\n  1 with images of more than one class\n" in text
        assert "horizontal flips, class split 0: off, judged harmful: " in words
        assert model.classifier.recipe["data"]["flip"] is False
        assert "groups of images" in model.classifier.notes
        assert model.classifier.notes["horizontal flips"].startswith("off, judged harmful: ")

    def test_each_class_is_in_the_card_with_its_interval(self, model: LoadedModel) -> None:
        counts = np.array(model.classifier.classes.confusion)
        assert (counts[:-1].sum(axis=1) > 0).any()
        assert counts[-1].sum() == 0  # all are known
        assert "### Classes" in model_card(model.classifier)

    def test_the_proxys_best_point_is_what_all_classes_were_trained_with(
        self, model: LoadedModel, run_folder: RunFolder
    ) -> None:
        parents = {parent.info.run_name: parent for parent in run_folder.parents()}
        assert len(parents) == len(run_folder.parents()) == 2, "one run each, and none left over"
        assert {parent.info.status for parent in parents.values()} == {"FINISHED"}
        trials = run_folder.children(parents["folder-proxy"].info.run_id)
        with_placeholders = [trial for trial in trials if trial.data.params["objective"] == "proser"]
        assert len(with_placeholders) == 6
        best = max(trial.data.metrics["dev/macro_f1"] for trial in with_placeholders)
        winners = {
            (float(trial.data.params["beta"]), float(trial.data.params["gamma"]))
            for trial in with_placeholders
            if trial.data.metrics["dev/macro_f1"] == best
        }
        assert model.version.tags[CHOSEN_AMONG] == "6"
        tuned = model.classifier.recipe["finetune"]
        assert (tuned["beta"], tuned["gamma"]) in winners
        assert model.classifier.recipe["data"]["num_known"] == 6

    def test_what_is_printed_and_written_says_where_each_number_comes_from(
        self, text: str, model: LoadedModel, run_folder: RunFolder
    ) -> None:
        proxy = model.classifier.proxy
        assert "6 classes, with their images: eight (60), five (60), four (60)" in text
        told = f"proxy: 4 classes are known; {proxy.chose[0]} held out to choose by, {proxy.reported[0]} to test by"
        assert told in text
        of_all_classes = text.partition("all 6 classes, with what the proxy chose")[2]
        assert "  1 with images of more than one class\n" in of_all_classes
        assert "images with more than one class: 1" not in of_all_classes
        assert "all 6 classes, with what the proxy chose: beta" in text
        assert "folder: test images of known classes, %" in text
        assert f"Unknown images, measured by the proxy with {proxy.chose[0]} held out: AUROC" in text
        assert "Model: models:/proser/1 (candidate, champion): PROSER, MaxLogit\n" in text
        assert f"- {proxy.chose[0]}, held out to choose by: AUROC" in model_card(model.classifier)
        assert f"- {proxy.reported[0]}, by which nothing was chosen: AUROC" in model_card(model.classifier)
        results = [path.read_text() for path in run_folder.storage.glob("report/*/results.md")]
        (own,) = [result for result in results if result.startswith("# Results of recipe folder\n")]
        assert "Every class is known; the fine-tune is that of the proxy, which held some classes out: beta" in own
        card = next(run_folder.storage.glob(f"evaluate/*/classifier/{MODEL_CARD}"))
        assert "nan" not in card.read_text()

    def test_a_control_that_is_better_on_development_data_is_said_to_be(self, text: str, run_folder: RunFolder) -> None:
        evaluations = [json.loads(path.read_text()) for path in run_folder.storage.glob("evaluate/*/evaluation.json")]
        assert len(evaluations) == 2, "of the proxy and of all classes"
        for evaluation in evaluations:
            flat = {name: method.get("dev/macro_f1", 0.0) for name, method in evaluation["methods"].items()}
            assert bool(evaluation["passed_over"]) == (flat["CE control, MaxLogit"] > flat["PROSER"])
            assert evaluation["passed_over"] in text

    def test_the_proxy_decides_what_the_evaluation_is_found_by(self, model: LoadedModel, run_folder: RunFolder) -> None:
        proxy = model.classifier.proxy
        manifests = [json.loads(path.read_text()) for path in run_folder.storage.glob("evaluate/*/manifest.json")]
        assert {manifest["inputs"]["proxy"] for manifest in manifests} == {None, digest_of(proxy.results)}

    def test_the_registry_shows_the_proxys_figures(self, model: LoadedModel) -> None:
        proxy = model.classifier.proxy
        assert float(model.version.tags["dev/auroc"]) == pytest.approx(proxy.results["dev/auroc"], abs=1e-6)

    def test_the_same_again_trains_nothing(
        self, text: str, my_images: Path, run_folder: RunFolder, without_ray: None
    ) -> None:
        code, again = printed(run_recipe, RunRequest(own_recipe(), my_images, run_folder.storage))
        assert code == 0
        assert "every stage was already finished" in again
        assert "models:/proser/1" in again

    @pytest.mark.slow
    def test_another_model_is_compared_by_the_proxy(
        self, model: LoadedModel, my_images: Path, run_folder: RunFolder
    ) -> None:
        other = replace(own_recipe(), calibration=replace(own_recipe().calibration, target_rate=0.9))
        printed(run_recipe, RunRequest(other, my_images, run_folder.storage))
        code, text = printed(promote, PromoteRequest(tolerance=0.9))
        assert code == 0, text
        proxy = model.classifier.proxy
        unknown = int((~proxy.validation_scores.is_known).sum())
        assert f"of the proxies, with {unknown} development unknowns" in text
        decision = next(parent for parent in run_folder.parents() if "difference/auroc" in parent.data.metrics)
        assert decision.data.metrics["champion/auroc"] == proxy.metrics()["auroc"]
        assert decision.data.metrics["champion/closed_set_accuracy"] == pytest.approx(
            model.classifier.results["dev/closed_set_accuracy"]
        )

    @pytest.mark.slow
    def test_the_same_trainings_are_scored_again_by_the_score_that_the_proxy_chooses(
        self, text: str, my_images: Path, run_folder: RunFolder
    ) -> None:
        calibration = replace(own_recipe().calibration, score="auto", development=("noise",), mirror=True)
        trained = sorted(run_folder.storage.glob("trials/*"))
        code, again = printed(
            run_recipe,
            RunRequest(replace(own_recipe(), calibration=calibration), my_images, run_folder.storage),
            width=2000,
        )
        assert code == 0
        assert sorted(run_folder.storage.glob("trials/*")) == trained
        chosen = re.search(r"Scores, chosen by .*: PROSER: (\S+) \(best: \S+ on held-out-1, \S+ on noise\)", again)[1]
        found = load("models:/proser@candidate").classifier
        assert (found.score_function.name, found.mirror) == (chosen, True)
        assert found.notes["Score"] == f"{chosen}, as in the proxy"
        assert f"Scores, as in the proxy: PROSER: {chosen}" in again
        assert found.fitting is not None
        proxy = next(parent for parent in run_folder.parents() if "proxy" in parent.info.run_name)
        with pytest.raises(ConfigError, match=r"calibration\.development, whose images only `proser run` reads"):
            register_best(proxy.info.run_id, run_folder.storage, None, "of_proxy")


@pytest.mark.slow
def test_two_classes_of_few_images_are_trained_on_without_a_proxy_in_smaller_batches(
    run_folder: RunFolder, my_images: Path, tmp_path: Path
) -> None:
    for name in NAMES[:2]:
        (tmp_path / "two" / name).mkdir(parents=True)
        for path in sorted((my_images / name).iterdir())[:25]:
            (tmp_path / "two" / name / path.name).symlink_to(path)
    plain = own_recipe()
    plain = replace(plain, model_name="two", pretrain=replace(plain.pretrain, epochs=6, lr=0.02))
    recipe = replace(plain, data=replace(plain.data, group_near_duplicates=False, flip=False))  # digits look alike
    recipe = replace(recipe, calibration=replace(recipe.calibration, target_rate=0.98))
    code, text = printed(run_recipe, RunRequest(recipe, tmp_path / "two", run_folder.storage))
    assert code == 0
    assert "2 classes are too few for a proxy" in text
    assert re.search(r"\d+ validation images to calibrate by; to keep 98.0 % known takes 50", " ".join(text.split()))
    model = load("models:/two@champion")
    assert (model.classifier.class_names, model.classifier.proxy) == (NAMES[:2], None)
    assert model.classifier.recipe["pretrain"]["batch_size"] == 28
    images = digits.read("test", 8)
    known = images.images[np.isin(images.labels, [VALUES[name] for name in NAMES[:2]])]
    assert (model.classifier.predict(known).indices < 2).mean() > 0.5
    results = [path.read_text() for path in run_folder.storage.glob("report/*/results.md")]
    assert sum("There was nothing to select by; the fine-tune is the recipe's own" in text for text in results) == 1


@pytest.mark.usefixtures("model")
class TestRecalibration:
    def test_the_proxys_bias_follows(self, my_images: Path, run_folder: RunFolder) -> None:
        """Another target rate is what macro-F1 is then compared at."""
        before = load("models:/proser/1").classifier
        printed(calibrate, CalibrateRequest("models:/proser/1", my_images, 0.5))
        after = load("models:/proser@candidate").classifier
        assert after.proxy.validation_scores.known_rate(after.proxy.bias) == pytest.approx(0.5, abs=0.05)
        assert after.proxy.metrics()["auroc"] == before.proxy.metrics()["auroc"]
        assert after.proxy.metrics()["macro_f1"] != before.proxy.metrics()["macro_f1"]
        auroc = r"by which nothing was chosen: AUROC [\d.]+"
        assert re.search(f"{auroc} and macro-F1 [\\d.]+, on test images", model_card(before))
        assert re.search(f"{auroc}, on test images", model_card(after)), "no macro-F1 at the threshold before"
