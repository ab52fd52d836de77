"""End to end: one small run of every stage, and what the runs after it repeat or leave alone.

The fixtures run in this order on one storage: first, again, healed, recalibrated, retrained.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import ray
from mlflow.entities import Run
from pipeline_runs import Outcome, RunFolder, quick_recipe, write_space

from pipelines.tracking.models import load
from proser_core.config import Recipe
from proser_core.data.readers import digits
from proser_core.digests import sha256_of
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.store.files import read_json

GRID = '{"beta": tune.grid_search([0.0, 1.0]), "gamma": tune.grid_search([0.0, 0.1])}'
POINTS = 4
SETTINGS = (1, 2, 3)


def recipe() -> Recipe:
    return replace(quick_recipe(), space="small_grid")


@pytest.fixture(scope="module")
def first(run_folder: RunFolder, spaces: Path, empty_programs: None) -> Outcome:
    write_space(spaces, "small_grid", GRID)
    outcome = run_folder.run(recipe())
    ray.shutdown()  # nothing after it needs Ray, which is not idle for free
    return outcome


@pytest.fixture(scope="module")
def children(first: Outcome, run_folder: RunFolder) -> list[Run]:
    return run_folder.children(first.parent_id)


@pytest.fixture(scope="module")
def proser_children(children: list[Run]) -> list[Run]:
    return [run for run in children if run.data.params["objective"] == "proser"]


@pytest.fixture(scope="module")
def again(first: Outcome, run_folder: RunFolder) -> tuple[Outcome, int, int]:
    """The same run once more, with the numbers of MLflow runs before and after it."""
    before = len(run_folder._runs())
    outcome = run_folder.run(recipe())
    return outcome, before, len(run_folder._runs())


def stamps(run_folder: RunFolder) -> dict[str, tuple[int, str]]:
    """Time of change and digest of each trial's weights: a trial that was trained again has another time."""
    files = run_folder.storage.glob("trials/*/weights.safetensors")
    return {path.parent.name: (path.stat().st_mtime_ns, sha256_of(path)) for path in files}


@pytest.fixture(scope="module")
def healed(again: object, trains_here: None, run_folder: RunFolder) -> tuple[Outcome, str, dict, dict]:
    """A run without Ray after one trial's folder was deleted: outcome, the trial's key, weights before and after."""
    before = stamps(run_folder)
    victim = sorted(before)[3]
    shutil.rmtree(run_folder.storage / "trials" / victim)
    outcome = run_folder.run(recipe())
    return outcome, victim, before, stamps(run_folder)


@pytest.fixture(scope="module")
def recalibrated(healed: object, empty_figures: None, run_folder: RunFolder) -> tuple[Outcome, dict, dict]:
    """A run with another target rate, and the trials' weights before and after it."""
    before = stamps(run_folder)
    outcome = run_folder.run(replace(recipe(), calibration=replace(recipe().calibration, target_rate=0.8)))
    return outcome, before, stamps(run_folder)


@pytest.fixture(scope="module")
def retrained(recalibrated: object, run_folder: RunFolder) -> tuple[Outcome, dict, dict]:
    """A run with another fine-tuning learning rate, on a space of which one point diverges."""
    before = stamps(run_folder)
    finetune = replace(recipe().finetune, lr=0.02)
    outcome = run_folder.run(replace(recipe(), space="one_diverges", finetune=finetune))
    return outcome, before, stamps(run_folder)


def aggregate_bias(run_folder: RunFolder, outcome: Outcome) -> dict[str, float]:
    runs = run_folder.children(outcome.parent_id)
    return {run.info.run_name: run.data.metrics["calibration/bias"] for run in runs}


class TestTheFirstRun:
    def test_it_is_clean_and_names_the_model_and_the_figures(self, first: Outcome) -> None:
        assert first.code == 0
        assert not first.failures
        assert first.ran == {"prepare", "pretrain", "sweep", "evaluate", "report"}
        assert "Try it: proser serve models:/proser/1" in first.text
        assert "Selected on development data" in first.text
        assert "proser ui" in first.text

    def test_it_has_one_child_for_each_point_and_one_for_the_control(
        self, children: list[Run], proser_children: list[Run]
    ) -> None:
        assert len(children) == POINTS + 1
        assert {run.info.status for run in children} == {"FINISHED"}
        pairs = {(float(run.data.params["beta"]), float(run.data.params["gamma"])) for run in proser_children}
        assert pairs == {(beta, gamma) for beta in (0.0, 1.0) for gamma in (0.0, 0.1)}

    def test_every_child_has_the_parameters_of_its_trial(self, children: list[Run], proser_children: list[Run]) -> None:
        for run in children:
            assert (run.data.params["split_index"], run.data.params["seed"]) == ("0", "0")
        for run in proser_children:
            assert {"beta", "gamma"} <= run.data.params.keys()
            assert (run.data.params["C"], run.data.params["alpha"]) == ("5", "2.0")

    def test_every_child_has_the_metrics_of_every_openness_setting_and_rates_are_fractions(
        self, children: list[Run]
    ) -> None:
        needed = {"calibration/bias", "dev/auroc", "dev/macro_f1", "test/closed_set_accuracy", "val/known_rate"}
        for setting in SETTINGS:
            needed |= {f"test/unknown_{setting}/{name}" for name in ("auroc", "macro_f1", "oscr")}
        for run in children:
            assert needed <= run.data.metrics.keys()
            assert all(np.isfinite(run.data.metrics[name]) for name in needed)
            rates = {k: v for k, v in run.data.metrics.items() if k.endswith(("auroc", "macro_f1", "oscr", "rate"))}
            assert all(0 <= value <= 1 for value in rates.values()), rates
            assert rates["val/known_rate"] >= 0.95

    @pytest.mark.parametrize("name", ["loss/closed_set", "loss/placeholder", "loss/mixture", "train/dummy_win_rate"])
    def test_curves_have_one_value_an_epoch(self, name: str, proser_children: list[Run], run_folder: RunFolder) -> None:
        for run in proser_children:
            history = run_folder.client.get_metric_history(run.info.run_id, name)
            assert [metric.step for metric in history] == [0, 1]

    def test_the_control_has_no_placeholder_curve(self, children: list[Run]) -> None:
        (control,) = (run for run in children if run.data.params["objective"] == "cross_entropy")
        assert "loss/closed_set" in control.data.metrics
        assert "loss/placeholder" not in control.data.metrics

    def test_the_parent_has_the_pretraining_curve_and_the_selected_metrics(
        self, first: Outcome, run_folder: RunFolder
    ) -> None:
        run = run_folder.client.get_run(first.parent_id)
        assert run.info.status == "FINISHED"
        history = run_folder.client.get_metric_history(first.parent_id, "pretrain/loss/closed_set")
        assert [metric.step for metric in history] == [0, 1]
        assert {"calibration/bias", "dev/macro_f1", "test/unknown_3/auroc"} <= run.data.metrics.keys()
        assert {"split_index", "seed", "space", "recipe"} <= run.data.params.keys()

    def test_the_parent_has_heat_maps_curves_scores_and_what_decided_the_result(
        self, first: Outcome, run_folder: RunFolder
    ) -> None:
        files = run_folder.files(first.parent_id)
        tables = ("class_split.json", "recipe.json", "data_fingerprint.json", "evaluation.json", "trials.parquet")
        figures = {"scores.png", "scores.svg", "macro_f1_over_known_rate.png", "macro_f1_over_known_rate.svg"}
        for metric in ("auroc", "macro_f1"):
            figures |= {f"small_grid/{metric}{kind}.png" for kind in ("", "_settings", "_against_openness")}
        figures |= {"small_grid/parallel_coordinates.svg"}
        assert {f"tables/{name}" for name in tables} | {f"figures/{name}" for name in figures} <= files
        assert {name.partition("/")[0] for name in files} == {"figures", "tables", "results.md"}

    def test_every_score_of_the_pretrained_net_and_of_the_control_stands_in_the_table(
        self, first: Outcome, run_folder: RunFolder, tmp_path: Path
    ) -> None:
        text = Path(run_folder.client.download_artifacts(first.parent_id, "results.md", str(tmp_path))).read_text()
        for name in ("MSP", "MaxLogit", "OpenMax", "CE control, MSP", "CE control, MaxLogit"):
            assert text.count(f"| {name} |") == 1
        assert "CE control, OpenMax" not in text

    def test_the_class_split_names_the_known_classes(
        self, first: Outcome, run_folder: RunFolder, tmp_path: Path
    ) -> None:
        path = run_folder.client.download_artifacts(first.parent_id, "tables/class_split.json", str(tmp_path))
        split = read_json(Path(path))
        assert len(split["known"]) == 5
        roles = [*split["known"].values(), *split["unknown"], *split["development"]]
        assert sorted(roles) == list(range(10))

    def test_the_selected_trial_is_the_best_on_development_data(
        self, first: Outcome, proser_children: list[Run], run_folder: RunFolder
    ) -> None:
        best = max(run.data.metrics["dev/macro_f1"] for run in proser_children)
        parent = run_folder.client.get_run(first.parent_id)
        assert parent.data.metrics["dev/macro_f1"] == pytest.approx(best)

    def test_its_version_is_candidate_and_champion(self, first: Outcome) -> None:
        assert first.versions == 1
        assert first.aliases == {"candidate": "1", "champion": "1"}


def test_the_registered_model_is_the_classifier_that_was_evaluated(first: Outcome, run_folder: RunFolder) -> None:
    """How it predicts elsewhere stands with the served model."""
    (kept,) = run_folder.storage.glob("evaluate/*/classifier")
    registered, evaluated = load("models:/proser@champion").classifier, OpenSetClassifier.load(kept)
    assert registered.results == evaluated.results
    images = digits.read("test", quick_recipe().data.image_size).images[:200]
    got, want = registered.predict(images), evaluated.predict(images)
    np.testing.assert_array_equal(got.unknown_scores, want.unknown_scores)
    assert 0 < np.mean([label == "unknown" for label in got.labels]) < 1


class TestTheSameRunAgain:
    def test_it_trains_nothing_and_starts_no_ray(self, again: tuple[Outcome, int, int]) -> None:
        outcome, _, _ = again
        assert outcome.code == 0
        assert outcome.ran == set()
        assert "every stage was already finished" in outcome.text
        assert not outcome.session.cluster._nodes

    def test_it_makes_no_run_and_no_version_and_no_value_of_a_curve(
        self, first: Outcome, again: tuple[Outcome, int, int], children: list[Run], run_folder: RunFolder
    ) -> None:
        outcome, before, after = again
        assert outcome.parent_id == first.parent_id
        assert before == after == POINTS + 2
        assert (outcome.versions, outcome.aliases) == (1, first.aliases)
        history = run_folder.client.get_metric_history(children[0].info.run_id, "loss/closed_set")
        assert [metric.step for metric in history] == [0, 1]


class TestARunAfterOneTrialWasDeleted:
    def test_only_that_trial_is_trained_again_and_comes_out_as_it_was(
        self, healed: tuple[Outcome, str, dict, dict]
    ) -> None:
        outcome, victim, before, after = healed
        assert {key for key in before if before[key][0] != after[key][0]} == {victim}
        assert before.keys() == after.keys()
        assert before[victim][1] == after[victim][1]
        assert f"{POINTS + 1} trials (one of them the control), {POINTS} trained before" in outcome.text

    def test_nothing_else_is_done_again(self, first: Outcome, healed: tuple[Outcome, str, dict, dict]) -> None:
        outcome = healed[0]
        assert outcome.ran == {"sweep"}
        assert outcome.versions == 1
        assert outcome.parent_id == first.parent_id


class TestARunWithAnotherTargetRate:
    def test_it_trains_nothing(self, recalibrated: tuple[Outcome, dict, dict]) -> None:
        outcome, before, after = recalibrated
        assert before == after
        assert "pretrain" not in outcome.ran

    def test_every_trial_has_a_higher_bias(
        self, first: Outcome, recalibrated: tuple[Outcome, dict, dict], run_folder: RunFolder
    ) -> None:
        before, after = (aggregate_bias(run_folder, outcome) for outcome in (first, recalibrated[0]))
        assert before.keys() == after.keys()
        assert all(after[name] > before[name] for name in before)

    def test_it_is_another_mlflow_run_whose_version_is_candidate_while_the_champion_stays(
        self, first: Outcome, recalibrated: tuple[Outcome, dict, dict]
    ) -> None:
        assert recalibrated[0].parent_id != first.parent_id
        assert recalibrated[0].aliases == {"candidate": "2", "champion": "1"}

    def test_the_candidate_keeps_that_share_of_its_validation_images(
        self, recalibrated: tuple[Outcome, dict, dict]
    ) -> None:
        rate = load("models:/proser/2").classifier.calibration.known_rate
        assert rate == pytest.approx(0.8, abs=0.02)


@pytest.mark.slow
class TestARunWithAnotherFineTuning:
    def test_it_keeps_the_pretraining(self, retrained: tuple[Outcome, dict, dict], run_folder: RunFolder) -> None:
        outcome, _, _ = retrained
        assert "pretrain" not in outcome.ran
        assert "prepare" not in outcome.ran
        assert len(list((run_folder.storage / "pretrain").iterdir())) == 1

    def test_it_trains_every_trial_of_its_own(self, retrained: tuple[Outcome, dict, dict]) -> None:
        outcome, before, after = retrained
        assert "3 trials (one of them the control), 0 trained before" in outcome.text
        assert len(after) == len(before) + 2  # the control and the point that stays finite
        assert all(after[key] == before[key] for key in before)

    def test_the_trial_that_diverged_is_named_and_gives_exit_code_1_and_the_others_a_version(
        self, retrained: tuple[Outcome, dict, dict]
    ) -> None:
        outcome = retrained[0]
        assert outcome.code == 1
        assert outcome.aliases == {"candidate": "3", "champion": "1"}
        (failure,) = outcome.failures
        assert "gamma=1e+38" in failure
        assert "must stay finite" in failure
        assert "gamma=1e+38" in outcome.text

    def test_mlflow_shows_which_trial_failed_and_why(
        self, retrained: tuple[Outcome, dict, dict], run_folder: RunFolder
    ) -> None:
        runs = {run.info.run_name: run for run in run_folder.children(retrained[0].parent_id)}
        (failed,) = (run for run in runs.values() if run.info.status == "FAILED")
        assert "gamma=1e+38" in failed.info.run_name
        assert "must stay finite" in failed.data.tags["mlflow.note.content"]
        assert sum(run.info.status == "FINISHED" for run in runs.values()) == 2
