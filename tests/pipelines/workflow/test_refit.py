"""Images of one's own, all classes known: hyperparameters from a proxy, then all classes, in the same registry."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pipeline_runs import RunFolder, printed, tiny_recipe, write_space

from pipelines.commands.calibrate import CalibrateRequest, calibrate
from pipelines.recipes import digits as digits_recipe
from pipelines.recipes import folder
from pipelines.tracking.models import Model, load
from pipelines.workflow.promotion import promote
from pipelines.workflow.refit import proxy_of, refit_of, with_batches, with_chosen
from pipelines.workflow.requests import PromoteRequest, SweepRequest
from pipelines.workflow.run import run
from pipelines.workflow.sweeping import sweep
from proser_core.config import CalibrationConfig, ClusterConfig, Recipe, digest_of
from proser_core.data.readers import digits
from proser_core.data.splits.class_split import draw_split
from proser_core.errors import ConfigError, DataError, TrainingError
from proser_core.jobs.trials import check_recipe
from proser_core.recognition.classifier_files import MODEL_CARD
from proser_core.recognition.model_card import model_card

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures", "empty_programs")

NAMES = ("eight", "five", "four", "nine", "one", "zero")
EQUAL = np.full(10, 80)
VALUES = {"eight": 8, "five": 5, "four": 4, "nine": 9, "one": 1, "zero": 0}


def own_recipe() -> Recipe:
    """The recipe for a user's own images, with the sizes of the tiny one."""
    own, tiny = folder(), tiny_recipe()
    return replace(
        own,
        precision="fp32",
        data=replace(own.data, image_size=8, padding=1, val_fraction=0.3),
        pretrain=tiny.pretrain,
        finetune=replace(own.finetune, epochs=2),
    )


@pytest.fixture(scope="module")
def my_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real digits as a folder of folders, grey, in several sizes; one eight lies among the fours too."""
    root, images = tmp_path_factory.mktemp("my_images"), digits.read("train", 8)
    for name, value in VALUES.items():
        (root / name).mkdir()
        for number, image in enumerate(images.images[images.labels == value][:60]):
            Image.fromarray(image).convert("L").resize((8 + number % 3, 9)).save(root / name / f"{number}.png")
    shutil.copy(root / "eight" / "0.png", root / "four" / "0.png")
    return root


class TestRun:
    @pytest.fixture(scope="class")
    def text(self, run_folder: RunFolder, my_images: Path) -> str:
        code, text = printed(run, own_recipe(), my_images, run_folder.storage, None)
        assert code == 0
        return text

    @pytest.fixture(scope="class")
    def model(self, text: str) -> Model:
        return load("models:/proser@champion")

    def test_the_model_knows_every_class_and_the_proxy_fewer(self, model: Model) -> None:
        assert model.classifier.class_names == NAMES
        proxy = model.classifier.proxy
        held_out = (*proxy.chose, *proxy.reported)
        assert len(held_out) == len({*held_out} & {*NAMES}) == 2
        assert proxy.validation_scores.num_known == 4
        assert {"dev/macro_f1", "dev/auroc", "test/unknown_1/auroc"} <= set(proxy.results)
        assert not any("unknown" in name or name == "dev/macro_f1" for name in model.classifier.results)

    def test_groups_and_flips_are_decided_once_and_told(self, text: str, model: Model) -> None:
        words = " ".join(text.split())
        found = re.findall(
            r"groups of images, class split 0: ([\d,]+) images of known classes form ([\d,]+), the", words
        )
        assert len(found) == 2  # of the proxy and of all classes
        assert found[1][0] == "360"
        assert "\n  1 with images of more than one class\n" in text
        assert "horizontal flips, class split 0: harmful (auto: off): " in words
        assert model.classifier.recipe["data"]["flip"] is False
        assert {"groups of images", "horizontal flips"} <= model.classifier.notes.keys()

    def test_each_class_is_in_the_card_with_its_interval(self, model: Model) -> None:
        counts = np.array(model.classifier.classes.confusion)
        assert (counts[:-1].sum(axis=1) > 0).any()
        assert counts[-1].sum() == 0  # all are known
        assert "### Classes" in model_card(model.classifier)

    def test_the_proxys_best_point_is_what_all_classes_were_trained_with(
        self, model: Model, run_folder: RunFolder
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
        tuned = model.classifier.recipe["finetune"]
        assert (tuned["beta"], tuned["gamma"]) in winners
        assert model.classifier.recipe["data"]["num_known"] == 6

    def test_what_is_printed_and_written_says_where_each_number_comes_from(
        self, text: str, model: Model, run_folder: RunFolder
    ) -> None:
        proxy = model.classifier.proxy
        assert "6 classes, with their images: eight (60), five (60), four (60)" in text
        told = f"proxy: 4 classes are known; {proxy.chose[0]} held out to choose by, {proxy.reported[0]} to test by"
        assert told in text
        assert re.search(r"repeated images, class split 0: .*images with more than one class: 1", text)
        assert "all 6 classes, with what the proxy chose: beta" in text
        assert "folder: test images of known classes, %" in text
        assert "Model: models:/proser/1 (candidate, champion)" in text
        assert f"- {proxy.chose[0]}, by which the fine-tune was chosen: AUROC" in model_card(model.classifier)
        assert f"- {proxy.reported[0]}, by which nothing was chosen: AUROC" in model_card(model.classifier)
        results = [path.read_text() for path in run_folder.storage.glob("report/*/results.md")]
        (own,) = [result for result in results if result.startswith("# folder\n")]
        assert "Every class is known. Selected on a proxy, with some classes held out: beta" in own
        card = next(run_folder.storage.glob(f"evaluate/*/classifier/{MODEL_CARD}"))
        assert "nan" not in card.read_text()

    def test_a_control_that_is_better_on_development_data_is_said_to_be(self, text: str, run_folder: RunFolder) -> None:
        evaluations = [json.loads(path.read_text()) for path in run_folder.storage.glob("evaluate/*/evaluation.json")]
        for evaluation in evaluations:
            flat = {name: method["flat"].get("dev/macro_f1", 0.0) for name, method in evaluation["methods"].items()}
            assert bool(evaluation["passed_over"]) == (flat["CE control, MaxLogit"] > flat["PROSER"])
            assert evaluation["passed_over"] in text

    def test_the_proxy_decides_what_the_evaluation_is_found_by(self, model: Model, run_folder: RunFolder) -> None:
        proxy = model.classifier.proxy
        manifests = [json.loads(path.read_text()) for path in run_folder.storage.glob("evaluate/*/manifest.json")]
        assert {manifest["inputs"]["proxy"] for manifest in manifests} == {None, digest_of(proxy.results)}

    def test_the_registry_shows_the_proxys_figures(self, model: Model) -> None:
        proxy = model.classifier.proxy
        assert model.version.tags["dev/auroc"] == f"{proxy.results['dev/auroc']:.4f}"

    def test_the_same_again_trains_nothing(
        self, text: str, my_images: Path, run_folder: RunFolder, without_ray: None
    ) -> None:
        code, again = printed(run, own_recipe(), my_images, run_folder.storage, None)
        assert code == 0
        assert "every stage was found finished" in again
        assert "models:/proser/1" in again

    def test_another_model_is_compared_by_the_proxy(self, model: Model, my_images: Path, run_folder: RunFolder) -> None:
        other = replace(own_recipe(), calibration=replace(own_recipe().calibration, target_rate=0.9))
        printed(run, other, my_images, run_folder.storage, None)
        code, text = printed(promote, PromoteRequest(tolerance=0.9))
        assert code == 0, text
        proxy = model.classifier.proxy
        unknown = int((~proxy.validation_scores.is_known).sum())
        assert f"{unknown} development unknowns of their proxies" in text
        decision = next(parent for parent in run_folder.parents() if "difference/auroc" in parent.data.metrics)
        assert decision.data.metrics["champion/auroc"] == proxy.metrics()["auroc"]
        assert decision.data.metrics["champion/closed_set_accuracy"] == pytest.approx(
            model.classifier.results["dev/closed_set_accuracy"]
        )

    def test_the_same_trainings_are_scored_again_by_the_score_that_the_proxy_chooses(
        self, text: str, my_images: Path, run_folder: RunFolder
    ) -> None:
        calibration = replace(own_recipe().calibration, score="auto", development=("noise",), mirror=True)
        trained = sorted(run_folder.storage.glob("trials/*"))
        code, again = printed(
            run, replace(own_recipe(), calibration=calibration), my_images, run_folder.storage, None, width=2000
        )
        assert code == 0
        assert sorted(run_folder.storage.glob("trials/*")) == trained
        chosen = re.search(r"Scores, chosen by .*: PROSER: (\S+) \(best: \S+ on held-out-1, \S+ on noise\)", again)[1]
        found = load("models:/proser@candidate").classifier
        assert (found.score_function.name, found.mirror) == (chosen, True)
        assert found.notes["Score"] == f"{chosen}, named in advance"
        assert found.fitting is not None


def test_the_proxy_chooses_the_score_and_all_classes_are_trained_for_it() -> None:
    calibration = CalibrationConfig(score="auto", development=("noise",), mirror=True)
    recipe = replace(folder(), calibration=calibration)
    proxy, refit = proxy_of(recipe, EQUAL), refit_of(recipe, 10)
    check_recipe(proxy)
    check_recipe(refit)
    assert proxy.calibration == calibration
    assert refit.calibration == CalibrationConfig(mirror=True)
    assert with_chosen(calibration, "KNN", False) == CalibrationConfig(score="KNN", mirror=True)
    assert with_chosen(CalibrationConfig(dummy_weight=0.5), "gap", False) == CalibrationConfig(dummy_weight=0.5)


def test_the_proxy_chooses_the_network_and_all_classes_get_it() -> None:
    recipe = replace(folder(), calibration=CalibrationConfig(network="auto"))
    check_recipe(proxy_of(recipe, EQUAL))
    check_recipe(refit_of(recipe, 10))
    assert refit_of(recipe, 2).calibration == CalibrationConfig()
    assert with_chosen(recipe.calibration, "MaxLogit", True) == CalibrationConfig(network="control")
    assert with_chosen(recipe.calibration, "gap", False) == CalibrationConfig()


class TestProxy:
    @pytest.mark.parametrize(
        ("classes", "known", "development", "reported"),
        [
            (3, 2, "held-out-1", ()),
            (4, 2, "held-out-1", (1,)),
            (6, 4, "held-out-1", (1,)),
            (100, 60, "held-out-20", (20,)),
        ],
    )
    def test_a_fifth_chooses_and_a_fifth_reports(
        self, classes: int, known: int, development: str, reported: tuple[int, ...]
    ) -> None:
        data = proxy_of(folder(), np.full(classes, 80)).data
        assert (data.num_known, data.development, data.unknown_settings) == (known, development, reported)

    def test_of_two_classes_none_is_held_out_and_one_is_refused(self) -> None:
        assert proxy_of(folder(), np.array([80, 80])) is None
        with pytest.raises(DataError, match="has 1 class"):
            refit_of(folder(), 1)

    @given(st.lists(st.sampled_from([3, 20, 80, 500]), min_size=4, max_size=12))
    def test_no_class_of_few_images_is_held_out_where_a_draw_avoids_it(self, sizes: list[int]) -> None:
        counts = np.array(sizes)
        data = proxy_of(folder(), counts).data
        split = draw_split(data, len(counts))
        held_out = [*split.development, *split.unknown]
        few = counts < np.median(counts) / 4
        assert few[held_out].any() == (len(counts) - few.sum() < len(held_out))
        earlier = [draw_split(replace(data, split_index=number), len(counts)) for number in range(data.split_index)]
        assert all(few[[*each.development, *each.unknown]].any() for each in earlier)

    def test_classes_of_like_size_leave_the_recipes_own_split(self) -> None:
        recipe = replace(folder(), data=replace(folder().data, split_index=5))
        assert proxy_of(recipe, np.array([60, 80, 100, 120, 70, 90])).data.split_index == 5

    def test_the_refit_knows_all_and_tries_one_point(self) -> None:
        made = refit_of(folder(), 7)
        assert (made.data.num_known, made.space, made.data.has_development) == (7, "", False)

    @pytest.mark.slow
    def test_two_classes_of_few_images_are_trained_on_without_a_proxy_in_smaller_batches(
        self, run_folder: RunFolder, my_images: Path, tmp_path: Path
    ) -> None:
        for name in NAMES[:2]:
            (tmp_path / "two" / name).mkdir(parents=True)
            for path in sorted((my_images / name).iterdir())[:25]:
                (tmp_path / "two" / name / path.name).symlink_to(path)
        plain = own_recipe()
        plain = replace(plain, model_name="two", pretrain=replace(plain.pretrain, epochs=6, lr=0.02))
        recipe = replace(plain, data=replace(plain.data, group_near_duplicates=False, flip=False))  # digits look alike
        code, text = printed(run, recipe, tmp_path / "two", run_folder.storage, None)
        assert code == 0
        assert "none can be held out" in text
        model = load("models:/two@champion")
        assert (model.classifier.class_names, model.classifier.proxy) == (NAMES[:2], None)
        assert model.classifier.recipe["pretrain"]["batch_size"] == 28
        images = digits.read("test", 8)
        known = images.images[np.isin(images.labels, [VALUES[name] for name in NAMES[:2]])]
        assert (model.classifier.predict(known).indices < 2).mean() > 0.5
        results = [path.read_text() for path in run_folder.storage.glob("report/*/results.md")]
        assert sum("There was nothing to select by; the fine-tune is the recipe's own" in text for text in results) == 1

    def test_few_images_make_smaller_batches(self) -> None:
        made = with_batches(folder(), 29)
        assert (made.pretrain.batch_size, made.finetune.batch_size) == (28, 28)
        assert with_batches(folder(), 500) == folder()
        shared = with_batches(replace(folder(), cluster=ClusterConfig(num_workers=4)), 29)
        assert (shared.pretrain.batch_size, shared.finetune.batch_size) == (24, 24)
        with pytest.raises(ConfigError, match="has 6 training images, and its workers need 8 for a batch"):
            with_batches(replace(folder(), cluster=ClusterConfig(num_workers=4)), 6)


class TestRecalibration:
    def test_the_proxys_bias_follows(self, my_images: Path, run_folder: RunFolder) -> None:
        """After the run above: another target rate is what macro-F1 is then compared at."""
        before = load("models:/proser/1").classifier
        printed(calibrate, CalibrateRequest("models:/proser/1", my_images, 0.5))
        after = load("models:/proser@candidate").classifier
        assert after.proxy.validation_scores.known_rate(after.proxy.bias) == pytest.approx(0.5, abs=0.05)
        assert after.proxy.metrics()["auroc"] == before.proxy.metrics()["auroc"]
        assert after.proxy.metrics()["macro_f1"] != before.proxy.metrics()["macro_f1"]


class TestRefusals:
    def test_broken_images_of_any_class_are_found_before_anything_trains(
        self, my_images: Path, run_folder: RunFolder, tmp_path: Path
    ) -> None:
        root = tmp_path / "broken"
        shutil.copytree(my_images, root)
        for name in NAMES:
            (root / name / "0.png").write_bytes(b"no image")
            recipe = replace(own_recipe(), model_name="never")
            with pytest.raises(DataError, match=f"{name}/0.png: the image"):
                printed(run, recipe, root, tmp_path / "storage", None)
            shutil.copy(my_images / name / "0.png", root / name / "0.png")
        assert not (tmp_path / "storage/pretrain").exists()
        statuses = {parent.info.status for parent in run_folder.parents()}
        assert "FAILED" in statuses
        assert "RUNNING" not in statuses

    def test_a_space_whose_file_was_edited_is_another_run(self, my_images: Path, run_folder: RunFolder) -> None:
        diverges = replace(own_recipe(), pretrain=replace(own_recipe().pretrain, lr=1e30), seed=8)
        before = {parent.info.run_id for parent in run_folder.parents()}
        for beta in (1.0, 2.0):
            write_space(run_folder.root, "edited", f'{{"beta": tune.grid_search([{beta}])}}')
            with pytest.raises(TrainingError, match="pretraining of class split 0 failed"):
                printed(
                    run,
                    replace(diverges, space=str(run_folder.root / "edited.py")),
                    my_images,
                    run_folder.storage,
                    None,
                )
        new = [parent.info.run_name for parent in run_folder.parents() if parent.info.run_id not in before]
        assert sorted(new) == ["folder", "folder", "folder-proxy", "folder-proxy"]

    def test_a_proxy_that_fails_ends_both_runs_as_failed(self, my_images: Path, run_folder: RunFolder) -> None:
        diverges = replace(own_recipe(), pretrain=replace(own_recipe().pretrain, lr=1e30), seed=7)
        before = {parent.info.run_id for parent in run_folder.parents()}
        with pytest.raises(TrainingError, match="pretraining of class split 0 failed"):
            printed(run, diverges, my_images, run_folder.storage, None)
        new = [parent for parent in run_folder.parents() if parent.info.run_id not in before]
        assert {parent.info.run_name: parent.info.status for parent in new} == {
            "folder": "FAILED",
            "folder-proxy": "FAILED",
        }

    def test_a_space_that_is_none_is_refused_before_the_images_are_read(
        self, my_images: Path, run_folder: RunFolder, tmp_path: Path
    ) -> None:
        with pytest.raises(ConfigError, match="did you mean 'own_images'"):
            printed(run, replace(own_recipe(), space="own_image"), my_images, tmp_path, None)
        assert not (tmp_path / "prepare").exists()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"calibration": CalibrationConfig(score="auto", development=("noize",))}, "noize"),
            ({"stop_early": True, "cluster": ClusterConfig(num_workers=2, pretrain_workers=1)}, "num_workers is 2"),
        ],
    )
    def test_what_the_proxy_could_not_use_is_refused_before_the_images_are_read(
        self, options: dict[str, Any], message: str, my_images: Path, tmp_path: Path
    ) -> None:
        recipe = replace(own_recipe(), **options)
        with pytest.raises(ConfigError, match=message):
            printed(run, recipe, my_images, tmp_path / "storage", None)
        assert not (tmp_path / "storage" / "prepare").exists()

    def test_a_storage_among_the_images_is_refused(self, my_images: Path, run_folder: RunFolder) -> None:
        with pytest.raises(ConfigError, match=r"--storage writes to .*figures would be taken for images"):
            printed(run, own_recipe(), my_images, my_images / "storage", None)
        assert not (my_images / "storage").exists()
        with pytest.raises(ConfigError, match="the tracking database writes to"):
            printed(run, own_recipe(), run_folder.root, run_folder.root.parent / "elsewhere", None)

    def test_a_sweep_without_unknown_classes_is_refused(self, my_images: Path, tmp_path: Path) -> None:
        recipe = replace(digits_recipe(), data=replace(digits_recipe().data, unknown_settings=()))
        with pytest.raises(ConfigError, match=r"data\.unknown_settings is \(\).*give both"):
            printed(sweep, SweepRequest(recipe, ("trade_off",), (0,), None, tmp_path))

    def test_all_classes_leave_none_to_test_or_choose_by(self) -> None:
        wrong = {"unknown_settings": (3,), "development": "held-out-2", "unknown": "cifar100", "split_family": "neal"}
        for name, value in wrong.items():
            with pytest.raises(ConfigError, match=re.escape(f"data.{name} is {value!r}")):
                replace(folder().data, **{name: value})

    def test_nothing_to_choose_by_needs_an_empty_space(self) -> None:
        data = replace(folder().data, num_known=4)
        with pytest.raises(ConfigError, match="space is 'own_images'; it must be empty"):
            replace(folder(), data=data)

    def test_a_checkpoint_of_all_classes_does_not_fit_the_proxy(self, my_images: Path, run_folder: RunFolder) -> None:
        with pytest.raises(ConfigError, match="--pretrained got a checkpoint"):
            printed(run, own_recipe(), my_images, run_folder.storage, my_images / "any.pth")

    def test_what_cannot_run_two_trainings_says_so(self) -> None:
        with pytest.raises(ConfigError, match="`proser run` makes both"):
            check_recipe(folder())
