"""The best trial of a sweep, or the best several, registered as a model."""

import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pytest
import torch
from pipeline_runs import RunFolder, printed, quick_recipe
from sweep_runs import RATE, request, task_of

from pipelines.reports.sweep_table import read_table
from pipelines.serving.served_model import ServedModel
from pipelines.storage import lease
from pipelines.storage.mirror import MIRROR_VARIABLE
from pipelines.storage.storage import Storage
from pipelines.tracking.models import LoadedModel, load
from pipelines.tracking.versions import CHOSEN_AMONG, versions_of
from pipelines.workflow.best_of import _classifier, _plain_tables, _pretraining_of, _task_of, register_best
from pipelines.workflow.promotion import promote
from pipelines.workflow.requests import PromoteRequest
from pipelines.workflow.stages.evaluate import Networks
from pipelines.workflow.sweeping import sweep
from proser_core.config import CalibrationConfig, NetworkConfig, Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError, TrackingError
from proser_core.jobs.network_choice import trained_control
from proser_core.jobs.network_tables import trained_network
from proser_core.jobs.spec import WEIGHTS
from proser_core.networks.nets import add_placeholders, make_closed_set_net
from proser_core.networks.weights import load_weights
from proser_core.recognition.embedding_table import task_embeddings
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logit_tables import load_logits
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.model_card import model_card
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scores import MaxLogit
from proser_core.store.files import read_json
from proser_core.store.store import MANIFEST, Artefact, load_if_complete, write_manifest

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures", "empty_programs")


def newest_report(folder: RunFolder) -> Path:
    return max(folder.storage.glob("sweep_report/*"), key=lambda path: path.stat().st_mtime_ns)


def pretraining_of(folder: RunFolder, trial: Path) -> Artefact:
    """The finished pretraining that a trial began with."""
    wanted = read_json(trial / MANIFEST)["inputs"]["weights"]
    made = [load_if_complete(path) for path in folder.storage.glob("pretrain/*")]
    (found,) = [each for each in made if each is not None and each.digest == wanted]
    return found


class TestItsBestTrial:
    NAME = "digits, betas + pairs"

    def test_is_registered_once_as_it_was_evaluated(self, swept: tuple, folder: RunFolder) -> None:
        _, rows, _, _ = swept
        made = register_best(self.NAME, folder.storage, 1, "of_sweep")
        assert (made.version, made.aliases) == ("1", ("candidate", "champion"))
        assert folder.client.get_model_version("of_sweep", "1").tags[CHOSEN_AMONG] == "3"
        runs = len(folder.parents())
        assert register_best(self.NAME, folder.storage, 1, "of_sweep").version == "1"
        assert len(folder.parents()) == runs, "what is there already needs no run"
        of_split = [row for row in rows if row["split_index"] == 1 and row["objective"] == "proser"]
        best = max(of_split, key=lambda row: row["metrics"]["dev/macro_f1"])
        model = load("models:/of_sweep/1")
        assert model.classifier.results == pytest.approx(best["metrics"])
        source = folder.client.get_run(folder.client.get_model_version("of_sweep", "1").run_id)
        assert source.data.tags["mlflow.proser.trial_key"] == best["key"]
        assert model.classifier.recipe["data"]["split_index"] == 1
        assert model.classifier.recipe["finetune"]["beta"] == best["params"]["beta"]
        assert "| CE control, MaxLogit |" in model_card(model.classifier)
        logits = model.classifier.logits(OpenSetTask.load(task_of(folder, best)).val.images)
        np.testing.assert_allclose(
            model.classifier.score_function(logits), model.classifier.validation_scores.scores[: len(logits)], atol=1e-4
        )

    def test_is_of_the_first_split_where_none_is_given(self, swept: object, folder: RunFolder) -> None:
        register_best(self.NAME, folder.storage, None, "of_first_split")
        classifier = load("models:/of_first_split/1").classifier
        assert classifier.recipe["data"]["split_index"] == 0
        controls = read_table(newest_report(folder)).controls
        of_split = {each["name"]: each["metrics"] for each in controls if each["split_index"] == 0}
        assert classifier.controls == {name: pytest.approx(metrics) for name, metrics in of_split.items()}

    def test_has_the_seed_of_its_training_not_that_of_the_sweep(
        self, swept: object, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seed = quick_recipe().seed
        monkeypatch.setattr("pipelines.workflow.best_of.from_json", lambda *_: replace(quick_recipe(), seed=seed + 1))
        register_best(self.NAME, folder.storage, 1, "of_seed")
        assert load("models:/of_seed/1").classifier.recipe["seed"] == seed

    def test_a_first_promotion_says_which_trial_became_the_champion_and_the_next_that_it_is(
        self, swept: tuple, folder: RunFolder
    ) -> None:
        of_split = [row for row in swept[1] if row["split_index"] == 1 and row["objective"] == "proser"]
        best = max(of_split, key=lambda row: row["metrics"]["dev/macro_f1"])
        asked = PromoteRequest("promoted", best_of=self.NAME, split_index=1, storage=folder.storage)
        which = f"promoted version 1 is {best['name']} of class split 1, the best of 3 points there on development data"
        for how in ("now: it is the model's first version", "already; nothing to do"):
            code, text = printed(promote, asked)
            assert (code, text.splitlines()) == (0, [which, f"promoted version 1 is the champion {how}"])

    def test_of_another_split_or_sweep_is_refused(self, swept: object, folder: RunFolder, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="--split-index got 7; the sweep has 0, 1"):
            register_best(self.NAME, folder.storage, 7, "of_sweep")
        with pytest.raises(TrackingError, match=r"has no sweep 'other'; .* Sweeps: .*digits, betas \+ pairs"):
            register_best("other", folder.storage, None, "of_sweep")
        with pytest.raises(ConfigError, match=r"does not hold all of trial .*; give the storage of the sweep"):
            register_best(self.NAME, tmp_path, None, "of_sweep")


class TestItsBestTrials:
    """Three of one class split, as an ensemble."""

    NAME = TestItsBestTrial.NAME

    @pytest.fixture(scope="class")
    def trials(self, swept: tuple) -> list[dict[str, Any]]:
        """All three of the split, the best first."""
        mine = [row for row in swept[1] if row["split_index"] == 1 and row["objective"] == "proser"]
        return sorted(mine, key=lambda row: -row["metrics"]["dev/macro_f1"])

    @pytest.fixture(scope="class")
    def model(self, trials: object, folder: RunFolder) -> LoadedModel:
        made = register_best(self.NAME, folder.storage, 1, "ensembles", members=3)
        assert made.aliases == ("candidate", "champion")
        runs = len(folder._runs())
        assert register_best(self.NAME, folder.storage, 1, "ensembles", members=3).version == made.version
        assert len(folder._runs()) == runs, "what is there already needs no run"
        return load("models:/ensembles/1")

    def test_a_machine_that_has_only_the_storages_uri_registers_the_same(
        self, model: LoadedModel, folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(MIRROR_VARIABLE, str(tmp_path))
        monkeypatch.setattr(lease, "SETTLE_S", 0.05)
        register_best(self.NAME, folder.storage.as_uri(), 1, "ensembles", members=3)
        assert [version.number for version in versions_of(folder.client, "ensembles")] == ["1"]
        assert len(list(tmp_path.glob("*/storage/prepare/*"))) == 1, "not the images of other class splits"
        with pytest.raises(ConfigError, match=r"--storage got file://.* does not hold all of trial"):
            register_best(self.NAME, tmp_path.as_uri(), 1, "ensembles")

    def test_their_mean_predicts_bit_for_bit(
        self, model: LoadedModel, trials: list[dict[str, Any]], folder: RunFolder
    ) -> None:
        task = OpenSetTask.load(task_of(folder, trials[0]))
        images, normalisation = np.asarray(task.val.images), (task.mean, task.std)
        known, best_dummies = 0, 0
        for row in trials:
            net = add_placeholders(make_closed_set_net(quick_recipe().network, 5, 8, seed=9), 5, seed=9)
            load_weights(net, folder.storage / "trials" / row["key"] / "weights.safetensors")
            logits = compute_logits(net, images, normalisation, torch.device("cpu"))
            known, best_dummies = known + logits.known, best_dummies + logits.dummies.max(axis=1)
        found = model.classifier.logits(images)
        np.testing.assert_array_equal(found.known, known / 3)
        np.testing.assert_array_equal(found.dummies[:, 0], best_dummies / 3)
        scores = (best_dummies - known.max(axis=1)) / np.float32(3)
        kept = np.sort(scores)[math.ceil(RATE * len(scores)) - 1]
        assert model.classifier.calibration.bias == pytest.approx(-kept, abs=1e-5)
        unknown = model.classifier.predict(images).indices == 5
        assert unknown.sum() == len(images) - math.ceil(RATE * len(scores))

    def test_it_is_served_as_any_other(
        self, model: LoadedModel, folder: RunFolder, trials: list[dict[str, Any]]
    ) -> None:
        images = np.asarray(OpenSetTask.load(task_of(folder, trials[0])).test.images[:30])
        expected = model.classifier.predict(images)
        found = mlflow.pyfunc.load_model("models:/ensembles/1").predict({"image": images})
        assert found.label.tolist() == expected.labels
        served = ServedModel("models:/ensembles/1", "cpu").current.classifier.predict(images)
        np.testing.assert_allclose(served.unknown_scores, expected.unknown_scores, atol=1e-4)

    def test_a_promotion_says_what_a_prediction_takes(
        self, model: LoadedModel, trials: list[dict[str, Any]], folder: RunFolder
    ) -> None:
        asked = PromoteRequest(best_of=self.NAME, ensemble=3, split_index=1, storage=folder.storage)
        code, text = printed(promote, asked)
        assert (code, "each prediction takes 3 forward passes" in text) == (0, True)
        names = ", ".join(row["name"] for row in trials)
        assert f"is the mean of {names} of class split 1, the best 3 of 3 points there" in text
        assert model.title in text, "the sweep's recipe names the model"

    def test_the_card_has_the_members_their_cost_and_what_they_are_to_be_compared_with(
        self, model: LoadedModel, trials: list[dict[str, Any]]
    ) -> None:
        classifier = model.classifier
        assert [member.trial for member in classifier.members] == [row["key"] for row in trials]
        assert [member.results for member in classifier.members] == [pytest.approx(row["metrics"]) for row in trials]
        assert all(each["val/known_rate"] == pytest.approx(RATE, abs=0.01) for each in classifier.controls.values())
        assert classifier.controls["PROSER, best trial"] == pytest.approx(trials[0]["metrics"])
        card = model_card(classifier)
        assert "each prediction takes 3 forward passes" in card
        for row in trials:
            assert f"\n| {row['name']} |" in card
        for name in ("PROSER, best trial", "CE control, MaxLogit", "CE ensemble of 2, MaxLogit"):
            assert f"\n| {name} |" in card

    def test_the_controls_ensemble_is_the_mean_of_its_two_networks(
        self, model: LoadedModel, swept: tuple, folder: RunFolder
    ) -> None:
        (control,) = [row for row in swept[1] if row["split_index"] == 1 and row["objective"] == "cross_entropy"]
        trial = folder.storage / "trials" / control["key"]
        folders = pretraining_of(folder, trial).path, trial
        of_pretrained, of_control = (load_logits(path / "logits.npz") for path in folders)
        task = OpenSetTask.load(task_of(folder, control))
        right = (of_control["test"].known + of_pretrained["test"].known).argmax(1) == task.test.targets
        found = model.classifier.controls["CE ensemble of 2, MaxLogit"]
        assert found["test/closed_set_accuracy"] == pytest.approx(right[np.asarray(task.test.targets) < 5].mean())

    def test_its_run_is_one_of_the_sweep_and_leaves_those_of_the_trials_alone(
        self, model: LoadedModel, trials: list[dict[str, Any]], folder: RunFolder
    ) -> None:
        version = folder.client.get_model_version("ensembles", "1")
        assert version.tags["proser.members"] == "; ".join(row["name"] for row in trials)
        run = folder.client.get_run(version.run_id)
        (parent,) = (each for each in folder.parents() if each.info.run_id == run.data.tags["mlflow.parentRunId"])
        assert parent.info.run_name == self.NAME
        assert run.info.run_name == "ensemble of 3"
        assert run.data.metrics["dev/macro_f1"] == pytest.approx(model.classifier.results["dev/macro_f1"])
        found = 0
        for each in folder.children(parent.info.run_id):
            mine = [row for row in trials if row["key"] == each.data.tags["mlflow.proser.trial_key"]]
            found += len(mine)
            for row in mine:
                assert each.data.metrics["dev/macro_f1"] == pytest.approx(row["metrics"]["dev/macro_f1"])
        assert found == len(trials)
        code, text = printed(sweep, request(folder, resume=True))
        assert (code, "nothing to train" in text) == (0, True)

    @pytest.mark.slow
    def test_a_score_of_embeddings_and_mirrored_images_reads_those_of_all_members(
        self, trials: list[dict[str, Any]], folder: RunFolder, tmp_path: Path
    ) -> None:
        table = read_table(newest_report(folder))
        recipe = replace(quick_recipe(), calibration=CalibrationConfig(score="KNN", mirror=True, target_rate=RATE))
        recipe = replace(recipe, data=replace(recipe.data, split_index=1))
        trial = load_if_complete(folder.storage / "trials" / trials[0]["key"])
        store = Storage(folder.storage)
        networks = Networks(recipe, _task_of(trial, store), trial.path.parent, store)
        plain = _plain_tables(networks, trial, trained_control(table.rows, 1, table.own), store)
        place, _ = _classifier(networks, table, trials[:2], None, plain, tmp_path)
        classifier, images = OpenSetClassifier.load(place), OpenSetTask.load(task_of(folder, trials[0])).val.images
        assert (classifier.score_function.name, classifier.mirror, classifier.forward_passes) == ("KNN", True, 2)
        scores = classifier.predict(np.asarray(images)).unknown_scores - classifier.calibration.bias
        np.testing.assert_allclose(scores, classifier.validation_scores.scores[: len(scores)], rtol=1e-4, atol=1e-5)
        (of_split,) = (each for each in table.controls if each["split_index"] == 1 and each["name"] == "MaxLogit")
        assert classifier.controls["MaxLogit"] == pytest.approx(self.mirrored_control(recipe, trial, folder))
        assert classifier.controls["MaxLogit"] != pytest.approx(of_split["metrics"]), "mirrored images for all alike"

    @staticmethod
    def mirrored_control(recipe: Recipe, trial: Artefact, folder: RunFolder) -> dict[str, float]:
        task, weights = OpenSetTask.load(_task_of(trial, None).path), pretraining_of(folder, trial.path).path / WEIGHTS
        net, device = trained_network(recipe, None, task.num_known, weights), torch.device("cpu")
        tables = task_embeddings(net, task, device, seed=recipe.seed, mirror=True)
        return evaluate(tables, MaxLogit(), task, recipe.calibration.target_rate).flat()

    def test_one_is_the_best_trial_itself(self, trials: list[dict[str, Any]], folder: RunFolder) -> None:
        made = register_best(self.NAME, folder.storage, 1, "of_sweep", members=1)
        assert made.version == register_best(self.NAME, folder.storage, 1, "of_sweep").version
        assert load(f"models:/of_sweep/{made.version}").classifier.forward_passes == 1

    def test_more_than_have_finished_are_refused(self, swept: object, folder: RunFolder) -> None:
        with pytest.raises(ConfigError, match=r"--ensemble got 4; .* finished on class split 1: 3\. Give no more"):
            register_best(self.NAME, folder.storage, 1, "ensembles", members=4)


def test_the_control_is_registered_where_the_recipe_has_it_as_the_network(
    swept: tuple, folder: RunFolder, tmp_path: Path
) -> None:
    recipe = replace(quick_recipe(), calibration=CalibrationConfig(network="control", target_rate=RATE))
    code, _ = printed(sweep, request(folder, recipe=recipe, spaces=("betas",), split_indices=(1,)))
    assert code == 0
    results = (newest_report(folder) / "results.md").read_text()
    assert "; calibration.network will be used by `proser promote --best-of`." in results
    name = "digits, betas"
    (control,) = [row for row in swept[1] if row["split_index"] == 1 and row["objective"] == "cross_entropy"]
    said: list[str] = []
    register_best(name, folder.storage, 1, "controls", say=said.append)
    assert said[0].startswith("controls version 1 is CE control of class split 1, in place of the best point there, ")
    found = load("models:/controls/1")
    assert found.classifier.num_dummies == 0
    assert found.classifier.notes["Network"] == "CE control, named in advance"
    assert found.classifier.results == pytest.approx(control["metrics"])
    assert "PROSER" in found.classifier.controls
    made_by = folder.client.get_run(folder.client.get_model_version("controls", "1").run_id)
    assert made_by.data.tags["mlflow.proser.trial_key"] == control["key"]
    with pytest.raises(ConfigError, match="--ensemble takes networks with placeholders"):
        register_best(name, folder.storage, 1, "controls", members=2)
    copied = shutil.copytree(folder.storage, tmp_path / "copied")
    weights = copied / "trials" / control["key"] / WEIGHTS
    for harm in (lambda: weights.write_bytes(b"changed"), lambda: shutil.rmtree(weights.parent)):
        harm()
        with pytest.raises(ConfigError, match=f"does not hold all of trial {control['key']}"):
            register_best(name, copied, 1, "controls")


@pytest.mark.usefixtures("swept")
@pytest.mark.parametrize(
    ("network", "calibration"), [({"features": "frozen"}, {}), ({"features": "trained"}, {"mirror": True})]
)
def test_a_network_that_needs_weights_which_this_machine_lacks_is_refused(
    network: dict[str, Any], calibration: dict[str, Any], folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = "/home/other/resnet18.pth"
    network = NetworkConfig(backbone="torchvision:resnet18", weights_file=weights, **network)
    recipe = replace(quick_recipe(), network=network, calibration=CalibrationConfig(**calibration))
    monkeypatch.setattr("pipelines.workflow.best_of.from_json", lambda cls, values: recipe)
    with pytest.raises(ConfigError, match=f"weights_file {weights} is not on this machine, .*; copy it there"):
        register_best(TestItsBestTrial.NAME, folder.storage, 1, "elsewhere")


def test_beside_a_trial_from_scratch_stands_no_pretrained_network_whose_weights_this_machine_lacks(
    tmp_path: Path,
) -> None:
    trial, task = (Artefact(tmp_path / place, "digest") for place in ("trials/0", "prepare/1"))
    trial.path.mkdir(parents=True)
    write_manifest(trial.path, {"weights": "", "code": "code"})
    network = NetworkConfig(
        backbone="torchvision:resnet18", weights_file="/home/other/resnet18.pth", features="trained"
    )
    assert _pretraining_of(trial, replace(quick_recipe(), network=network), task, None) is None
