"""Labels that neighbours doubt: against a slow twin, with wrong labels put in, and with bursts that share one."""

import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from proser_core.recognition import label_doubts as module
from proser_core.recognition.label_doubts import LEAST, LEAST_OUTSIDE, label_doubts
from proser_core.recognition.scores.neighbours import NEIGHBOUR


def slow_twin(embeddings: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> dict[int, tuple[int, float]]:
    found, sizes = {}, Counter(labels.tolist())
    for row, own in enumerate(embeddings):
        others = [each for each in range(len(labels)) if groups[each] != groups[row]]
        cosine = {
            each: own @ embeddings[each] / np.linalg.norm(own) / np.linalg.norm(embeddings[each]) for each in others
        }
        nearest = sorted(others, key=lambda each: -cosine[each])[:NEIGHBOUR]
        label, count = Counter(labels[nearest].tolist()).most_common(1)[0]
        outside = sum(labels[each] == labels[row] for each in others)
        is_judged = sizes[labels[row]] >= LEAST and outside >= LEAST_OUTSIDE
        if is_judged and label != labels[row] and 2 * count > len(nearest):
            found[row] = (label, count / len(nearest))
    return found


@given(st.integers(0, 999))
def test_as_a_slow_twin_finds_them(seed: int) -> None:
    draw = np.random.default_rng(seed)
    embeddings, labels = draw.normal(size=(40, 3)) + 0.5, draw.integers(0, 3, 40)
    groups = draw.integers(0, 25, 40)
    with_batches, module.AT_ONCE = module.AT_ONCE, 16 * 40
    try:
        found = label_doubts(embeddings, labels, groups, 3)
    finally:
        module.AT_ONCE = with_batches
    twin = slow_twin(embeddings, labels, groups)
    assert dict(zip(found.rows.tolist(), zip(found.others, found.shares, strict=True), strict=True)) == twin
    assert (np.diff(found.shares) <= 0).all()


def test_memory_does_not_grow_with_the_square_of_the_number_of_images(monkeypatch: pytest.MonkeyPatch) -> None:
    embeddings, labels = np.random.default_rng(0).normal(size=(1000, 3)), np.arange(1000) % 2
    monkeypatch.setattr(module, "AT_ONCE", 10_000)
    tracemalloc.start()
    try:
        label_doubts(embeddings, labels, np.arange(1000), 2)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 1_000_000, "all similarities in float32 are 4 MB"


def test_wrong_labels_of_digits_are_found_with_the_right_class() -> None:
    digits = load_digits()
    labels, wrong = digits.target.copy(), np.random.default_rng(0).permutation(len(digits.target))[:90]
    labels[wrong] = (labels[wrong] + 3) % 10
    found = label_doubts(digits.data, labels, np.arange(len(labels)), 10)
    hits = np.isin(found.rows, wrong)
    assert hits.sum() >= 85
    assert hits.mean() >= 0.8
    assert (found.others == digits.target[found.rows])[hits].all()


def test_images_of_one_group_do_not_confirm_each_other() -> None:
    draw = np.random.default_rng(0)
    centres = np.repeat([[1.0, 0.0], [0.0, 1.0]], 20, axis=0)
    embeddings, labels = centres + 0.05 * draw.normal(size=(40, 2)), np.repeat([0, 1], 20)
    embeddings[:12] = embeddings[30] + 1e-4 * draw.normal(size=(12, 2))  # a burst of class 1 that is called 0
    alone, burst = np.arange(40), np.maximum(np.arange(40), 11)
    assert set(range(12)).isdisjoint(label_doubts(embeddings, labels, alone, 2).rows.tolist())
    assert set(range(12)) <= set(label_doubts(embeddings, labels, burst, 2).rows.tolist())


def test_classes_of_few_images_are_not_judged_but_named() -> None:
    embeddings = np.concatenate([np.tile([1.0, 0.0], (20, 1)), np.tile([1.0, 0.01], (3, 1))])
    found = label_doubts(embeddings, np.repeat([0, 1], [20, 3]), np.arange(23), 3)
    assert (found.rows.tolist(), found.unjudged) == ([], (1,))


def test_a_class_of_one_scene_is_not_judged_but_named() -> None:
    draw = np.random.default_rng(0)
    centres = np.repeat([[1.0, 0.0], [0.0, 1.0]], 30, axis=0)
    embeddings, labels = centres + 0.05 * draw.normal(size=(60, 2)), np.repeat([0, 1], 30)
    for last in (0, 4):  # one group of all 30 frames, and one of 26 with four single images
        groups = np.maximum(np.arange(60), 29 - last)
        groups[30 - last :] = np.arange(100, 130 + last)
        found = label_doubts(embeddings, labels, groups, 2)
        assert not len(found.rows)
    groups = np.where(labels == 0, 0, np.arange(60))
    assert label_doubts(embeddings, labels, groups, 2).unjudged == (0,)


def test_one_group_of_all_images_has_no_neighbours() -> None:
    labels = np.arange(24) % 2
    assert not len(label_doubts(np.eye(24), labels, np.zeros(24, int), 2).rows)
