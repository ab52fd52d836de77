"""Scores of validation images and development unknowns: their metrics, their images, and their file."""

import dataclasses
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from compared_scores import CLASSES, KNOWN, scored
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from small_tasks import random_images, small_task
from streamed_images import Streamed

from proser_core.recognition.evaluation import evaluate_parts
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.scores import PlaceholderGap
from proser_core.recognition.validation_scores import ValidationScores, image_digests


def test_its_metrics_are_those_of_scikit_learn() -> None:
    held, bias = scored(1.0), -0.3
    predictions = np.where(held.scores <= -bias, held.known_predictions, CLASSES)
    known = held.targets < CLASSES
    assert held.metrics(bias) == pytest.approx(
        {
            "macro_f1": f1_score(held.targets, predictions, average="macro"),
            "auroc": roc_auc_score(~known, held.scores),
            "closed_set_accuracy": accuracy_score(held.targets[known], held.known_predictions[known]),
        }
    )
    assert held.known_rate(bias) == np.mean(held.scores[known] <= -bias)


def test_a_p_value_is_the_share_of_known_images_that_score_as_high_with_the_image_among_them() -> None:
    held = scored(1.0)
    known = held.scores[held.targets < CLASSES]
    images = np.array([known[7], known.min() - 1, known.max(), known.max() + 1])
    as_high = [sum(each >= score for each in known) for score in images]
    np.testing.assert_allclose(held.p_values(images), [(count + 1) / (KNOWN + 1) for count in as_high])


def test_it_is_made_of_the_decisions_on_a_task_and_survives_saving(tmp_path: Path) -> None:
    contents, generator = np.arange(12, dtype=np.uint64), np.random.default_rng(0)
    task = dataclasses.replace(small_task(), contents=contents)
    logits = {
        name: LogitTable(*generator.normal(size=(2, len(getattr(task, name)), 2)).astype(np.float32))
        for name in ("val", "development", "test")
    }
    held = ValidationScores.of(evaluate_parts(logits, PlaceholderGap(), task, 0.95)[1], task)
    assert held.is_known.tolist() == [True] * 6 + [False] * 6
    np.testing.assert_array_equal(held.scores[6:], PlaceholderGap()(logits["development"]))
    images = [*task.val.images, *task.development.images]
    assert held.images is not None
    assert [each.tobytes() for each in held.images] == [
        blake2b(each.tobytes(), digest_size=8).digest() for each in images
    ]
    held.save(tmp_path / "scores.npz")
    loaded = ValidationScores.load(tmp_path / "scores.npz")
    for name in ("scores", "known_predictions", "targets", "images"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(held, name))
    np.testing.assert_array_equal(loaded.contents, contents)
    np.testing.assert_array_equal(loaded.select(np.array([3, 1])).contents, [3, 1])
    assert (loaded.num_known, loaded.fingerprint) == (2, held.fingerprint)


def test_the_fingerprint_follows_images_targets_and_the_order_of_classes() -> None:
    task = small_task()
    changed = random_images(6, seed=2)
    changed[3, 0, 0, 0] ^= 1
    others = [
        dataclasses.replace(task, class_names=("cat", "dog")),
        dataclasses.replace(task, val=dataclasses.replace(task.val, images=changed)),
        dataclasses.replace(task, val=dataclasses.replace(task.val, targets=1 - task.val.targets)),
        dataclasses.replace(task, development=dataclasses.replace(task.development, images=task.val.images)),
    ]
    same = [task, small_task(), dataclasses.replace(task, test=task.train)]
    assert len({image_digests(each)[0] for each in same}) == 1
    assert len({image_digests(each)[0] for each in (task, *others)}) == 5


def test_streamed_images_are_decoded_once_and_have_the_digests_of_those_in_memory() -> None:
    task = small_task()
    val, development = (Streamed(part.images) for part in (task.val, task.development))
    streamed = dataclasses.replace(
        task,
        val=dataclasses.replace(task.val, images=val),
        development=dataclasses.replace(task.development, images=development),
    )
    fingerprint, images = image_digests(streamed)
    assert (fingerprint, images.tolist()) == (image_digests(task)[0], image_digests(task)[1].tolist())
    for part in (val, development):
        assert [len(rows) for rows in part.asked] == [len(part)]
