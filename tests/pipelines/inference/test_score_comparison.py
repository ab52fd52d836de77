"""All scores of a model on a user's labelled images."""

import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import pytest
from digit_folders import write_digits
from pipeline_runs import printed
from sklearn.metrics import f1_score, roc_auc_score
from small_tasks import make_classifier

from pipelines.commands.evaluate import EvaluateRequest, evaluate
from pipelines.inference.labelled_folder import FolderLogits, folder_logits
from pipelines.inference.score_comparison import compare_scores
from proser_core.data.readers import digits
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import CalibrationError, DataError
from proser_core.recognition.embedding_table import compute_embedding_table, index_rows, task_embeddings
from proser_core.recognition.logit_tables import FittingData, LogitTable, select
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.score_choice import fitted
from proser_core.recognition.scores import FURTHER_SCORES, SCORES, MaxLogit, ScoreFunction
from proser_core.recognition.scores.own_networks import FinishedScore, SmallestError
from proser_core.recognition.trained_classifier import OwnArchitecture
from proser_core.store.store import Artefact


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A third of the digits of the test part, in folders by class."""
    return write_digits(tmp_path_factory.mktemp("labelled"), part="test", every=3, name="{row:04}.png")


def test_every_score_of_a_model_that_keeps_embeddings_is_compared(
    classifier: OpenSetClassifier, task: Artefact, labelled: Path, tmp_path: Path
) -> None:
    import torch

    images = OpenSetTask.load(task.path)
    tables = task_embeddings(classifier.net, images, torch.device("cpu"))
    data = FittingData({part: tables[part] for part in FittingData.PARTS}, images.train.targets[index_rows(images, 0)])
    replace(classifier, fitting=data).save(tmp_path / "model")
    request = EvaluateRequest(str(tmp_path / "model"), labelled, tmp_path / "out.json", scores=True)
    code, text = printed(evaluate, request)
    assert code == 0
    found = json.loads((tmp_path / "out.json").read_text())["scores"]
    assert found["own"] == classifier.score_function.name
    assert sorted(found["metrics"]) == sorted({*SCORES, *FURTHER_SCORES})
    assert f"{found['own']} (the model's)" in text
    assert "missing" not in text

    test = digits.read("test", 8)
    pixels, names = test.images[::3], [test.class_names[label] for label in test.labels[::3]]
    is_unknown = np.array([name not in classifier.class_names for name in names])
    table = compute_embedding_table(classifier.net, pixels, classifier.normalisation, torch.device("cpu"))
    for name in ("KNN", "cosine", "ViM"):
        score = FURTHER_SCORES[name].fit(tables["train"], data.targets)
        assert found["metrics"][name]["auroc"] == pytest.approx(roc_auc_score(is_unknown, score(table)), abs=1e-6)


def test_a_model_that_keeps_none_says_which_scores_are_missing(
    classifier: OpenSetClassifier, labelled: Path, tmp_path: Path
) -> None:
    classifier.save(tmp_path / "model")
    request = EvaluateRequest(str(tmp_path / "model"), labelled, tmp_path / "out.json", scores=True)
    code, text = printed(evaluate, request)
    assert code == 0
    found = set(json.loads((tmp_path / "out.json").read_text())["scores"]["metrics"])
    assert found == {name for name, kind in {**SCORES, **FURTHER_SCORES}.items() if not kind.reads_training}
    assert {"cosine", "MaxLogit+cosine", "GEN"} <= found
    assert "scores that read training images are missing" in text
    printed(evaluate, replace(request, scores=False))
    assert "scores" not in json.loads((tmp_path / "out.json").read_text())


def test_every_score_is_fitted_and_calibrated_on_the_known_images_alone_at_the_models_rate(
    classifier: OpenSetClassifier, labelled: Path
) -> None:
    scored, names = folder_logits(classifier, labelled, "cpu", embeddings=True), classifier.class_names
    model = replace(classifier, calibration=replace(classifier.calibration, target_rate=0.8))
    found, truth = compare_scores(model, scored).metrics, scored.targets(names)
    known = np.flatnonzero(truth < len(names))
    fitting = {"val": select(scored.logits, known)}
    for name in ("MSP", "MaxLogit+cosine"):
        values = fitted({**SCORES, **FURTHER_SCORES}[name], fitting, truth[:0])(scored.logits)
        largest = np.sort(values[known])[math.ceil(0.8 * len(known) - 1e-9) - 1]
        called = np.where(values <= largest, scored.logits.known_predictions(), len(names))
        assert found[name]["macro_f1"] == pytest.approx(f1_score(truth, called, average="macro"))


@pytest.mark.parametrize("own", [SmallestError(), FinishedScore(), MaxLogit()], ids=lambda score: score.name)
def test_dummies_of_a_methods_own_network_are_read_by_its_own_score_alone(own: ScoreFunction) -> None:
    classifier = replace(make_classifier(), score_function=own, own=OwnArchitecture("C2AE", {}))
    logits = LogitTable(*np.random.default_rng(0).random((2, 20, 3), np.float32))
    scored = FolderLogits(logits, ["ant", "bee", "cow", "other"] * 5, [])
    found = set(compare_scores(classifier, scored).metrics)
    assert found == {own.name, "MSP", "MaxLogit", "energy", "GEN"}


@dataclass(frozen=True)
class Unfit(ScoreFunction):
    """The largest logit, which cannot be fitted again."""

    name, reads_validation = "unfit", True

    def of_table(self, logits: LogitTable) -> np.ndarray:
        return -logits.known.max(1)

    @classmethod
    def fit(cls, logits: LogitTable, targets: np.ndarray) -> Self:
        raise CalibrationError("it is fitted once")


@dataclass(frozen=True)
class Infinite(ScoreFunction):
    """Infinite for every image."""

    name = "infinite"

    def of_table(self, logits: LogitTable) -> np.ndarray:
        return np.full(len(logits), np.inf)


def test_a_score_that_is_not_finite_fails_alone_and_the_models_own_is_not_fitted_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for kind in (Unfit, Infinite):
        monkeypatch.setitem(FURTHER_SCORES, kind.name, kind)
    logits = LogitTable(*np.random.default_rng(0).random((2, 20, 3), np.float32))
    scored = FolderLogits(logits, ["ant", "bee", "cow", "other"] * 5, [])
    compared = compare_scores(replace(make_classifier(), score_function=Unfit()), scored)
    assert compared.missing == {"infinite": "15 of 15 validation scores are not finite; the training has diverged"}
    assert {"unfit", "MSP"} <= set(compared.metrics)


def test_known_images_alone_are_refused(classifier: OpenSetClassifier, labelled: Path, tmp_path: Path) -> None:
    classifier.save(tmp_path / "model")
    name = classifier.class_names[0]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).symlink_to(labelled / name)
    (tmp_path / "data" / "other").mkdir()
    with pytest.raises(DataError, match="has images of known classes only; add a folder of an unknown class"):
        printed(evaluate, EvaluateRequest(str(tmp_path / "model"), tmp_path / "data", scores=True))
