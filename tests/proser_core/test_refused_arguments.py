"""Arguments of the public library that a caller gets wrong: each error says what was got and what is needed."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from small_tasks import NORMALISATION, make_classifier, random_images, small_task, tiny_net

from proser_core import (
    FURTHER_SCORES,
    METHODS,
    SCORES,
    Calibration,
    DataConfig,
    EmbeddingTable,
    Labelled,
    LogitTable,
    NetworkConfig,
    ProserError,
    Recipe,
    ScoreFunction,
    add_placeholders,
    auroc,
    calibrate,
    compute_embedding_table,
    compute_logits,
    evaluate,
    make_closed_set_net,
    make_task,
    open_set_macro_f1,
    score,
    task_from_arrays,
    train,
)
from proser_core.errors import CalibrationError, ConfigError, DataError
from proser_core.recognition.scores import MaxLogit

CALIBRATION = Calibration(bias=0.0, target_rate=0.95, known_rate=0.95, num_images=20, interval=(0.9, 1.0))


def table(count: int = 6, num_known: int = 3, num_dummies: int = 0) -> LogitTable:
    generator = np.random.default_rng(0)
    return LogitTable(*(generator.standard_normal((count, size), np.float32) for size in (num_known, num_dummies)))


@pytest.mark.parametrize("name", ["MSP", "gap"])
def test_nan_logits_are_not_decided(name: str) -> None:
    given = table(num_dummies=2)
    given.known[[1, 4], 2] = np.nan
    with pytest.raises(DataError, match="the logits of 2 of 6 images give NaN"):
        score(given, SCORES[name](), CALIBRATION)


KNOWN, NONE = np.zeros((4, 3), np.float32), np.zeros((4, 0), np.float32)


@pytest.mark.parametrize(
    ("known", "dummies", "message"),
    [
        (KNOWN[0], NONE, r"known got float32\[3\]; need a NumPy array float32\[any, any\]"),
        (KNOWN.tolist(), NONE, "known got list; need a NumPy array"),
        (KNOWN.astype(int), NONE, r"known got int64\[4, 3\]"),
        (KNOWN, None, r"dummies got NoneType; need a NumPy array float32\[4, any\]; without dummies, np.zeros"),
        (KNOWN, NONE[:2], r"dummies got float32\[2, 0\]; need a NumPy array float32\[4, any\]"),
    ],
)
def test_a_table_of_what_are_no_logits_is_refused(known: Any, dummies: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        LogitTable(known, dummies)


@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("embeddings", r"embeddings got float32\[2, 5\]; need a NumPy array float32\[4, any\]"),
        ("weights", r"weights got float32\[2, 5\]; need a NumPy array float32\[3, 5\]"),
        ("biases", r"biases got float32\[2, 5\]; need a NumPy array float32\[3\]"),
        ("scale", r"scale got float32\[2, 5\]; need a NumPy array float32\[5\]"),
    ],
)
def test_a_table_of_embeddings_that_do_not_fit_is_refused(field: str, message: str) -> None:
    arrays = {"embeddings": (4, 5), "weights": (3, 5), "biases": (3,), "scale": (5,)} | {field: (2, 5)}
    with pytest.raises(DataError, match=message):
        EmbeddingTable(KNOWN, NONE, **{name: np.zeros(shape, np.float32) for name, shape in arrays.items()})


def test_labelled_images_need_one_target_each_of_a_class_that_is_there() -> None:
    task, images = small_task(), random_images(4)
    for targets, got in ((np.zeros(3, int), r"int64\[3\]"), (np.zeros(4), r"float64\[4\]")):
        with pytest.raises(DataError, match=f"4 images have targets {got}; need one integer per image"):
            Labelled(images, targets)
    for targets in ([0, 1, 2, 0], [0, -1, 1, 0]):
        with pytest.raises(DataError, match=r"targets of val run from .* need 0 to 1 with 2 known classes"):
            replace(task, val=Labelled(images, np.array(targets)))
    with pytest.raises(DataError, match=r"targets of development run from 0 to 2; need 2 to 2 with 2 known classes"):
        replace(task, development=Labelled(images, np.array([2, 0, 2, 2])))


@pytest.mark.parametrize("kind", (SCORES | FURTHER_SCORES).values(), ids=lambda kind: kind.name)
def test_every_score_of_plain_logits_is_fitted_or_says_what_it_needs(kind: type[ScoreFunction]) -> None:
    logits, targets = table(30), np.arange(30) % 3
    if kind.needs_dummies or kind.needs_embeddings:
        missing = (
            "dummy logits, and these have none" if kind.needs_dummies else "embeddings, and these are logits alone"
        )
        with pytest.raises(ConfigError, match=missing):
            kind.fit(logits, targets)(logits)
    else:
        assert kind.fit(logits, targets)(logits).shape == (30,)


@pytest.mark.parametrize("images", [[], None, Image.new("RGB", (8, 8)), torch.zeros((1, 8, 8, 3), dtype=torch.uint8)])
def test_images_that_are_no_array_are_refused(images: Any) -> None:
    with pytest.raises(DataError, match=f"images as {type(images).__name__}; need a NumPy array uint8"):
        make_classifier().predict(images)


@pytest.mark.parametrize("device", ["gpu", None, "cuda", "meta"])
def test_a_device_that_is_not_there_is_refused(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    message = "torch finds no GPU here" if device == "cuda" else f"device got {device!r}; need cpu, or cuda"
    for give in (
        make_classifier().predict,
        lambda images, device: compute_logits(tiny_net(), images, NORMALISATION, device),
    ):
        with pytest.raises(ConfigError, match=message):
            give(random_images(2), device)


SCORE_TABLE = np.zeros((4, 2))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibrate(SCORE_TABLE), r"scores are float64\[4, 2\]; need one number per image"),
        (lambda: auroc(SCORE_TABLE, [1.0]), r"known_scores are float64\[4, 2\]; need one number per image"),
        (lambda: auroc([1.0], np.array(["a"])), r"unknown_scores are <U1\[1\]; need one number per image"),
        (lambda: open_set_macro_f1([], [], 3), "predictions are float64"),
        (lambda: open_set_macro_f1(np.zeros(0, int), np.zeros(0, int), 3), "a macro-F1 needs images; got none"),
        (lambda: open_set_macro_f1([0], [0], -1), "num_known is -1; need the number of known classes"),
        (lambda: add_placeholders(tiny_net(), -1, 0), "num_dummies is -1; need at least 1"),
        (lambda: make_closed_set_net(NetworkConfig(), 0, 8, 0), "num_known is 0; need the number of known classes"),
        (lambda: make_closed_set_net(NetworkConfig(), 3, 8, -1), "seed is -1; need an integer, 0 or above"),
        (lambda: task_from_arrays(random_images(4), [0, 1] * 2, seed=0.5), "seed is 0.5; need an integer"),
        (
            lambda: task_from_arrays(random_images(4), [0, 1] * 2, val_fraction="0.1"),
            "val_fraction is '0.1'; need a share",
        ),
        (lambda: train(small_task(), Recipe(), "PROSR"), "no method is called 'PROSR'; did you mean 'PROSER'"),
        (
            lambda: train(small_task(), Recipe(), "CROSR", own_networks="fast"),  # type: ignore[arg-type]
            "no choice for own_networks is called 'fast'",
        ),
        (lambda: train(small_task(), Recipe(), MaxLogit()), "method got MaxLogit; need a proser_core.Method"),
        (lambda: train(small_task(), {}), "recipe got dict; need a proser_core.Recipe"),
        (
            lambda: train(small_task(), Recipe(), progress=sys.stderr),  # type: ignore[arg-type]
            "progress got .*; need a proser_core.EpochProgress",
        ),
    ],
)
def test_a_plausible_mistake_is_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ProserError, match=message):
        call()


@pytest.mark.parametrize(
    "normalisation",
    [
        (0.5, 0.25),
        ((0.5, 0.5, 0.5), 0.25),
        "imagenet",
        None,
        ((0.5, 0.5, 0.5), (0.25, 0.25, 0.0)),
        ((float("nan"),) * 3, (0.25,) * 3),
    ],
)
def test_a_normalisation_is_of_three_channels(normalisation: Any) -> None:
    with pytest.raises(ConfigError, match=r"normalisation is .*; need \(mean, std\), each of three channels"):
        compute_logits(tiny_net(), random_images(2), normalisation, "cpu")


def test_a_network_is_not_made_in_doubles() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(ConfigError, match=r"torch's default dtype is torch\.float64, .*; need float32"):
            train(small_task(), Recipe())
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_fit_that_would_be_given_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="Centred has a fit of its own, and reads no images; set reads_training"):

        class Centred(ScoreFunction):
            @classmethod
            def fit(cls, logits: LogitTable, targets: np.ndarray) -> "Centred":
                return cls()


def test_tasks_and_tables_can_be_compared_and_found_in_lists() -> None:
    tasks, tables = [small_task(), small_task()], [table(), table()]
    assert tasks[1] in tasks
    assert tasks[0] != tasks[1]
    assert tables[1] in tables
    assert len(set(tables)) == 2


@pytest.mark.parametrize("name", ["OpenMax", "KNN", "Mahalanobis"])
@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (np.arange(30) % 3 - 1, "got targets from -1 to 1; need 0 to 2"),
        (np.arange(30) % 4, "got targets from 0 to 3; need 0 to 2"),
        (np.zeros(30), r"got targets float64\[30\] of 30 training images; need one integer per image"),
        (np.arange(29) % 3, r"got targets int64\[29\] of 30 training images"),
    ],
)
def test_targets_of_no_class_fit_no_score(name: str, targets: np.ndarray, message: str) -> None:
    embedded = compute_embedding_table(tiny_net(), random_images(30), NORMALISATION, "cpu")
    with pytest.raises(CalibrationError, match=f"{name} {message}"):
        (SCORES | FURTHER_SCORES)[name].fit(embedded, targets)


def test_logits_of_other_images_than_the_tasks_are_not_evaluated() -> None:
    logits = {part: table(count, num_known=2) for part, count in (("val", 6), ("development", 6), ("test", 12))}
    evaluate(logits, MaxLogit(), small_task(), 0.9)
    for wrong, got in ((logits | {"val": table(5, num_known=2)}, "5 val"), ({**logits, "test": table(0)}, "no test")):
        with pytest.raises(DataError, match=f"there are logits of {got} images, and the task has"):
            evaluate(wrong, MaxLogit(), small_task(), 0.9)
    with pytest.raises(DataError, match="logits of no development images, and the task has 6"):
        evaluate({"val": logits["val"]}, MaxLogit(), small_task(), 0.9)
    with pytest.raises(DataError, match="known logits of test have 3 columns, and the task has 2 known classes"):
        evaluate(logits | {"test": table(12, num_known=3)}, MaxLogit(), small_task(), 0.9)


def test_a_classifier_is_not_saved_to_an_empty_name_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="got an empty name; need a path"):
        make_classifier().save("")
    for folder in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(ConfigError, match="is a file, or below one; need a folder"):
            make_classifier().save(folder)


@pytest.mark.parametrize(
    ("names", "name", "message"),
    [
        (SCORES, "MaxLogits", "no score of SCORES is called 'MaxLogits'; did you mean 'MaxLogit'.*OpenMax"),
        (FURTHER_SCORES, "nope", "no score of FURTHER_SCORES is called 'nope'. Available: .*ViM"),
        (METHODS, "Dummies", "no method is called 'Dummies'; did you mean 'Dummy'"),
    ],
)
def test_a_name_that_no_score_or_method_has_is_refused(names: dict[str, Any], name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        names[name]
    assert names.get(name) is None


def test_images_without_a_pixel_are_refused() -> None:
    digits = DataConfig(name="digits", image_size=0, num_known=5, unknown_settings=(3,), development="none", flip=False)
    with pytest.raises(ConfigError, match=r"data\.image_size is 0.*give one in pixels"):
        make_task(digits)
    with pytest.raises(ConfigError, match="image_size is 0; need the height and width of the images"):
        make_closed_set_net(NetworkConfig(), 3, image_size=0, seed=0)
