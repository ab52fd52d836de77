"""The public names, and a training from arrays to a classifier, in memory."""

import ast
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import load_digits

import proser_core
from proser_core import (
    METHODS,
    SCORES,
    CalibrationConfig,
    ClusterConfig,
    DataConfig,
    EpochProgress,
    FinetuneConfig,
    Labelled,
    OpenSetClassifier,
    OpenSetTask,
    PretrainConfig,
    Recipe,
    task_from_arrays,
    train,
)
from proser_core.baselines import Method
from proser_core.config import to_json
from proser_core.data.tasks import SUMMARY
from proser_core.errors import ConfigError, DataError
from proser_core.jobs.spec import WEIGHTS, Job, read_failure
from proser_core.jobs.worker import run_job
from proser_core.recognition.embedding_table import task_embeddings
from proser_core.recognition.scores import EmbeddingScore, MaxLogitAndCosine, NormalisedNeighbour
from proser_core.store.files import write_json

RECIPE = Recipe(
    precision="fp32",
    data=DataConfig(name="digits", image_size=8, num_known=3, flip=False, padding=1),
    pretrain=PretrainConfig(epochs=2, batch_size=32, lr=0.05),
    finetune=FinetuneConfig(epochs=1, batch_size=16, num_dummies=2),
)


@pytest.fixture(scope="module")
def task() -> OpenSetTask:
    """Digits 0 to 2 known, 3 and 4 unknown."""
    digits = load_digits(n_class=5)
    images = (digits.images * 255 / 16).astype(np.uint8)
    known = (np.arange(len(images)) < 300) & (digits.target < 3)
    return task_from_arrays(
        images[known], digits.target[known], test_images=images[700:], test_labels=digits.target[700:]
    )


def test_every_public_name_can_be_imported_and_the_type_checker_sees_the_same():
    tree = ast.parse(Path(proser_core.__file__).read_text())
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module for node in imported for alias in node.names}
    assert {name for name, module in seen.items() if module.startswith("proser_core")} == set(proser_core.__all__)
    assert all(getattr(proser_core, name) is not None for name in proser_core.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = proser_core.Nothing


@pytest.fixture(scope="module")
def trained(task: OpenSetTask) -> OpenSetClassifier:
    return train(task, RECIPE)


def other_weights(classifier: OpenSetClassifier, weights: dict[str, torch.Tensor]) -> set[str]:
    """Names of weights that differ."""
    return {name for name, value in classifier.net.state_dict().items() if not torch.equal(value, weights[name])}


@pytest.mark.parametrize(
    "changed",
    # processors without bf16 take seven times as long
    [{"seed": 5}, pytest.param({"precision": "bf16"}, marks=pytest.mark.slow)],
    ids=str,
)
def test_a_network_trained_in_memory_equals_that_of_the_jobs_and_seed_and_precision_decide_it(
    task: OpenSetTask, trained: OpenSetClassifier, tmp_path: Path, changed: dict[str, Any]
) -> None:
    task.save(tmp_path / "task")
    recipe, weights = replace(RECIPE, **changed), ""
    for kind in ("pretrain", "finetune"):
        in_bf16 = recipe.precision == "bf16"
        job = Job(kind, to_json(recipe), str(tmp_path / "task"), str(tmp_path / kind), weights, bf16=in_bf16)
        run_job(job, lambda metrics: None)
        weights = str(tmp_path / kind / WEIGHTS)
    classifier = train(task, recipe)
    assert other_weights(classifier, load_file(weights)) == set()
    assert other_weights(classifier, trained.net.state_dict())


def test_a_task_that_cannot_be_read_is_written_down_as_what_failed(tmp_path: Path) -> None:
    write_json(tmp_path / "task" / SUMMARY, {"split": 5})
    with pytest.raises(ConfigError, match="is 5; need an object"):
        run_job(Job("pretrain", to_json(RECIPE), str(tmp_path / "task"), str(tmp_path / "job")), lambda metrics: None)
    assert "is 5; need an object" in (read_failure(tmp_path / "job") or "")


def test_a_classifier_from_arrays_is_evaluated_saved_and_loaded(task: OpenSetTask, tmp_path: Path) -> None:
    lines = io.StringIO()
    classifier = train(task, RECIPE, progress=EpochProgress(lines))
    assert classifier.class_names == ("0", "1", "2")
    assert classifier.results["test/closed_set_accuracy"] > 0.9
    assert classifier.results["test/unknown_2/auroc"] > 0.6
    assert "pretrain: epoch 2/2" in lines.getvalue()
    assert "finetune: epoch 1/1" in lines.getvalue()
    classifier.save(tmp_path)
    images = np.asarray(task.test.images)
    assert OpenSetClassifier.load(tmp_path).predict(images).labels == classifier.predict(images).labels


def own_finetune(recipe: Recipe) -> FinetuneConfig:
    return recipe.finetune


FITTED = Method("mine", "no paper", SCORES["OpenMax"], finetune=own_finetune)


@pytest.mark.parametrize(
    ("method", "dummies"),
    [(METHODS["OpenMax"], 0), (METHODS["CE control, MaxLogit"], 0), (METHODS["PROSER, tuned"], 5), (FITTED, 2)],
)
def test_any_method_is_trained_and_scored_by_its_own_score(task: OpenSetTask, method: Method, dummies: int) -> None:
    """Of its own network, whichever the recipe names."""
    classifier = train(task, replace(RECIPE, calibration=CalibrationConfig(network="control")), method)
    assert classifier.num_dummies == dummies
    assert classifier.score_function.name == method.score.name
    assert classifier.calibration.known_rate >= 0.95


@pytest.mark.parametrize(("score", "control"), [(NormalisedNeighbour, False), (MaxLogitAndCosine, True)])
def test_a_method_of_ones_own_is_fitted_to_embeddings(
    task: OpenSetTask, score: type[EmbeddingScore], control: bool
) -> None:
    finetune = METHODS["CE control, MaxLogit"].finetune if control else None
    classifier = train(task, RECIPE, Method("mine", "no paper", score, finetune=finetune))
    tables = task_embeddings(classifier.net, task, torch.device("cpu"))
    expected = score.fit(tables["val" if score.reads_validation else "train"], np.asarray(task.train.targets))
    for part in ("val", "test"):
        np.testing.assert_allclose(classifier.score_function(tables[part]), expected(tables[part]), rtol=1e-6)
    assert classifier.fitting is not None


@pytest.mark.parametrize("method", [None, "OpenMax"])
def test_a_score_is_chosen_and_images_are_mirrored_in_memory_too(task: OpenSetTask, method: str | None) -> None:
    calibration = replace(RECIPE.calibration, score="KNN", mirror=True)
    classifier = train(task, replace(RECIPE, calibration=calibration), METHODS[method] if method else None)
    assert (classifier.score_function.name, classifier.mirror) == (method or "KNN", True)
    assert ("Score" in classifier.notes) == (method is None)
    scores = classifier.predict(np.asarray(task.val.images)).unknown_scores - classifier.calibration.bias
    np.testing.assert_allclose(scores, classifier.validation_scores.scores[: len(task.val)], rtol=1e-4, atol=1e-4)
    chosen = replace(RECIPE, calibration=replace(RECIPE.calibration, score="auto", development=("noise",)))
    with pytest.raises(ConfigError, match=r"calibration\.development names data sets"):
        train(task, chosen)


def test_a_method_brings_its_own_score_where_the_recipes_could_not_be_chosen(task: OpenSetTask) -> None:
    recipe = replace(RECIPE, calibration=replace(RECIPE.calibration, score="auto"))
    assert train(task, recipe, "MaxLogit").score_function.name == "MaxLogit"


@pytest.mark.slow
def test_a_score_is_chosen_by_the_tasks_own_development_images(task: OpenSetTask) -> None:
    auto = replace(RECIPE, calibration=replace(RECIPE.calibration, score="auto"))
    with pytest.raises(ConfigError, match="no development unknowns to choose by"):
        train(task, auto)
    digits = load_digits(n_class=5)
    images, known = (digits.images * 255 / 16).astype(np.uint8), digits.target < 3
    able = task_from_arrays(images[known], digits.target[known], development=images[~known])
    for development in ("cifar10", "none"):  # of the recipe's data, of which a task from arrays takes nothing
        classifier = train(able, replace(auto, space="", data=replace(RECIPE.data, development=development)))
        assert "chosen by" in classifier.notes["Score"]
        assert " on development unknowns" in classifier.notes["Score"]


def test_from_scratch_there_is_no_pretraining(task: OpenSetTask) -> None:
    lines = io.StringIO()
    train(task, replace(RECIPE, finetune=replace(RECIPE.finetune, start="scratch")), progress=EpochProgress(lines))
    assert "pretrain" not in lines.getvalue()


CONTROL = METHODS["CE control, MaxLogit"].finetune


@pytest.mark.parametrize(
    ("recipe", "method", "words"),
    [
        (replace(RECIPE, data=replace(RECIPE.data, image_size=16)), None, "data.image_size of the recipe is 16.*to 8"),
        (replace(RECIPE, data=replace(RECIPE.data, num_known=4)), None, "data.num_known of the recipe is 4.*to 3"),
        (replace(RECIPE, cluster=ClusterConfig(num_workers=2)), None, "one process trains all"),
        (replace(RECIPE, finetune=FinetuneConfig(batch_size=5000)), None, "finetune.batch_size 5000 is more than the"),
        (RECIPE, Method("mine", "no paper", SCORES["gap"], finetune=CONTROL), "give a finetune with placeholders"),
        (
            replace(
                RECIPE,
                finetune=replace(RECIPE.finetune, objective="cross_entropy"),
                calibration=replace(RECIPE.calibration, score="gap"),
            ),
            None,
            "finetune.objective is cross_entropy, and the score gap reads dummies",
        ),
    ],
)
def test_a_recipe_or_method_that_does_not_fit_is_refused_before_any_training(
    task: OpenSetTask, recipe: Recipe, method: Method | None, words: str
) -> None:
    lines = io.StringIO()
    with pytest.raises(ConfigError, match=words):
        train(task, recipe, method, progress=EpochProgress(lines))
    assert not lines.getvalue()


@pytest.mark.parametrize(
    ("part", "images", "words"),
    [
        ("val", np.zeros((0, 8, 8, 3), np.uint8), "no validation images"),
        ("val", np.zeros((2, 8, 8, 3), np.float32), r"images of val are float32.*need uint8\[N, 8, 8, 3\]"),
        ("development", np.zeros((2, 8, 8), np.uint8), r"images of development are uint8\[2, 8, 8\]; need"),
    ],
)
def test_images_that_only_the_evaluation_would_see_are_refused_before_any_training(
    task: OpenSetTask, part: str, images: np.ndarray, words: str
) -> None:
    target = task.num_known if part == "development" else 0
    lines, given = io.StringIO(), Labelled(images, np.full(len(images), target))
    with pytest.raises(DataError, match=words):
        train(replace(task, **{part: given}), RECIPE, progress=EpochProgress(lines))
    assert not lines.getvalue()


def test_classes_without_images_are_refused_before_any_training(task: OpenSetTask) -> None:
    lines = io.StringIO()
    known, twos = task.test.targets < 3, task.train.targets == 2
    train_images, test_images = np.asarray(task.train.images), np.asarray(task.test.images)
    only_known, only_unknown = (
        replace(task, test=Labelled(test_images[rows], task.test.targets[rows]), test_classes=task.test_classes[rows])
        for rows in (known, ~known)
    )
    no_twos = replace(task, train=Labelled(train_images[~twos], task.train.targets[~twos]))
    for given, words in (
        (only_known, "unknown_2 has no image of its unknown"),
        (only_unknown, "no test image of a known class"),
        (no_twos, "no training image of 2;"),
    ):
        with pytest.raises(DataError, match=words):
            train(given, RECIPE, progress=EpochProgress(lines))
    assert not lines.getvalue()


def test_training_is_not_kept_from_its_gradients_by_the_caller(task: OpenSetTask, trained: OpenSetClassifier) -> None:
    with torch.inference_mode():
        again = train(task, RECIPE)
    assert other_weights(again, trained.net.state_dict()) == set()


def test_the_interpreter_lists_the_public_names() -> None:
    assert set(proser_core.__all__) <= set(dir(proser_core))
