"""Scores that one is chosen among: each against a slow textbook twin, and pytorch-ood where that has the score."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch_ood import detector
from textbook import softmax

from proser_core.errors import CalibrationError, ConfigError
from proser_core.recognition.logit_tables import EmbeddingTable, LogitTable, select
from proser_core.recognition.mean_tables import mean_table
from proser_core.recognition.metrics import auroc
from proser_core.recognition.scores import FURTHER_SCORES, EmbeddingScore, GeneralizedEntropy

SIZE = 6


def table(seed: int, count: int, num_known: int = 4, size: int = SIZE) -> EmbeddingTable:
    """Embeddings around the mean of their class, whose weights depend on nothing but the number of classes."""
    head, generator = np.random.default_rng(num_known), np.random.default_rng(seed)
    weights, biases = head.standard_normal((num_known, size)), head.standard_normal(num_known)
    embeddings = (2 * weights[np.arange(count) % num_known] + generator.standard_normal((count, size))).astype("f")
    known = (embeddings @ weights.T + biases).astype("f")
    return EmbeddingTable(known, known[:, :0], embeddings, weights.astype("f"), biases.astype("f"))


def training(num_known: int = 4, count: int = 80) -> tuple[EmbeddingTable, np.ndarray]:
    return table(1, count, num_known), np.arange(count) % num_known


def norm(vector: np.ndarray) -> float:
    return math.sqrt(sum(float(entry) ** 2 for entry in vector))


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second) / norm(first) / norm(second)


def neighbour(points: np.ndarray, targets: np.ndarray, point: np.ndarray) -> float:
    smallest = min(list(targets).count(each) for each in set(targets))
    return sorted(norm(point - each) for each in points)[min(10, smallest) - 1]


def mahalanobis(embeddings: np.ndarray, targets: np.ndarray, point: np.ndarray) -> float:
    means = {k: embeddings[targets == k].mean(axis=0) for k in set(targets)}
    covariance = sum(np.outer(e - means[t], e - means[t]) for e, t in zip(embeddings, targets, strict=True))
    inverse = np.linalg.inv(covariance / len(embeddings))
    return min(float((point - mean) @ inverse @ (point - mean)) for mean in means.values())


def vim(fitted: EmbeddingTable, known: np.ndarray, point: np.ndarray) -> float:
    origin = -np.linalg.pinv(fitted.weights.astype(float)) @ fitted.biases
    centred = fitted.embeddings - origin
    main = np.linalg.svd(centred)[2][: fitted.embeddings.shape[1] // 2]

    def residual(vector: np.ndarray) -> float:
        return norm(vector - main.T @ (main @ vector))

    alpha = sum(map(max, fitted.known)) / sum(map(residual, centred))
    return alpha * residual(point - origin) - math.log(sum(map(math.exp, known)))


def boundary_distance(fitted: EmbeddingTable, known: np.ndarray, point: np.ndarray) -> float:
    best, mean = known.argmax(), fitted.embeddings.mean(axis=0)
    others = [k for k in range(len(known)) if k != best]
    distances = [(known[best] - known[k]) / norm(fitted.weights[best] - fitted.weights[k]) for k in others]
    return -sum(distances) / len(distances) / norm(point - mean)


def textbook(name: str, fitted: EmbeddingTable, targets: np.ndarray, known: np.ndarray, point: np.ndarray) -> float:
    embeddings, weights = fitted.embeddings.astype(float), fitted.weights.astype(float)

    def largest_cosine(vector: np.ndarray) -> float:
        return max(cosine(weight, vector) for weight in weights)

    match name:
        case "energy":
            return -math.log(sum(map(math.exp, known)))
        case "GEN":
            return sum((p * (1 - p)) ** 0.1 for p in sorted(softmax(known))[-10:])
        case "cosine":
            return -largest_cosine(point)
        case "MaxLogit+cosine":
            spreads = np.std(fitted.known.max(axis=1)), np.std([largest_cosine(each) for each in embeddings])
            return -max(known) / spreads[0] - largest_cosine(point) / spreads[1]
        case "KNN":
            return neighbour(np.stack([each / norm(each) for each in embeddings]), targets, point / norm(point))
        case "KNN-Euclidean":
            return neighbour(embeddings, targets, point)
        case "Mahalanobis":
            return mahalanobis(embeddings, targets, point)
        case "relative-Mahalanobis":
            return mahalanobis(embeddings, targets, point) - mahalanobis(embeddings, 0 * targets, point)
        case "ViM":
            return vim(fitted, known, point)
        case "fDBD":
            return boundary_distance(fitted, known, point)
    raise AssertionError(f"{name} has no textbook here")


@pytest.mark.parametrize("name", FURTHER_SCORES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(2, 10**6), num_known=st.integers(2, 12))
def test_a_score_is_its_textbooks(name, seed, num_known):
    fitted, targets = training(num_known)
    images = table(seed, 5, num_known)
    found = FURTHER_SCORES[name].fit(fitted, targets)(images)
    rows = zip(images.known.astype(float), images.embeddings.astype(float), strict=True)
    expected = [textbook(name, fitted, targets, known, point) for known, point in rows]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)  # float32 means and an index of the twin's


def test_of_an_odd_number_of_dimensions_the_smaller_half_is_the_space_of_vim():
    fitted, images = table(1, 80, size=5), table(2, 5, size=5)
    rows = zip(images.known.astype(float), images.embeddings.astype(float), strict=True)
    expected = [vim(fitted, known, point) for known, point in rows]
    found = FURTHER_SCORES["ViM"].fit(fitted, np.arange(80) % 4)(images)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["Mahalanobis", "relative-Mahalanobis"])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_embeddings_changes_no_mahalanobis_distance(name, scale):
    (fitted, targets), images = training(), table(2, 9)
    of_scale = [replace(each, embeddings=each.embeddings.astype(float) * scale) for each in (fitted, images)]
    expected = FURTHER_SCORES[name].fit(fitted, targets)(images)
    np.testing.assert_allclose(FURTHER_SCORES[name].fit(of_scale[0], targets)(of_scale[1]), expected, rtol=1e-6)


@pytest.mark.parametrize("name", FURTHER_SCORES)
def test_scores_of_one_known_class_are_finite(name):
    score = FURTHER_SCORES[name].fit(*training(num_known=1))
    assert np.isfinite(score(table(2, 9, num_known=1))).all()


def test_one_validation_image_has_no_spread_to_divide_by():
    score = FURTHER_SCORES["MaxLogit+cosine"].fit(table(1, 1), np.zeros(0, int))
    assert (score.logit_scale, score.cosine_scale) == (1, 1)


def standardised(seen: EmbeddingTable, mean: np.ndarray, std: np.ndarray) -> EmbeddingTable:
    """The table of a backbone whose embeddings the classifier sees as in `seen`, standardised by these."""
    weights = seen.weights / std
    embeddings = (seen.embeddings * std + mean).astype("f")
    return EmbeddingTable(seen.known, seen.dummies, embeddings, weights, seen.biases - weights @ mean, mean, std)


@pytest.mark.parametrize("name", ["cosine", "MaxLogit+cosine", "fDBD"])
def test_heads_of_a_frozen_backbone_are_scored_by_the_features_that_they_were_trained_on(name):
    generator = np.random.default_rng(5)
    mean, std = generator.uniform(2, 9, SIZE).astype("f"), generator.uniform(0.1, 4, SIZE).astype("f")
    (seen, targets), images = training(), table(2, 50)
    expected = FURTHER_SCORES[name].fit(seen, targets)(images)
    score = FURTHER_SCORES[name].fit(standardised(seen, mean, std), targets)
    np.testing.assert_allclose(score(standardised(images, mean, std)), expected, rtol=1e-4)
    both = mean_table([standardised(seen, mean, std)] * 2)
    doubled = FURTHER_SCORES[name].fit(both, targets)(mean_table([standardised(images, mean, std)] * 2))
    assert auroc(doubled[:25], doubled[25:]) == pytest.approx(auroc(expected[:25], expected[25:]))


def test_of_fewer_images_than_dimensions_both_distances_of_relative_mahalanobis_lie_in_one_space():
    generator = np.random.default_rng(6)
    means, targets = 3 * generator.standard_normal((4, 90)), np.arange(60) % 4

    def around(centres: np.ndarray) -> EmbeddingTable:
        embeddings = centres + generator.standard_normal((60, 90))
        return EmbeddingTable(embeddings[:, :4], embeddings[:, :0], embeddings, means, means[:, 0])

    score = FURTHER_SCORES["relative-Mahalanobis"].fit(around(means[targets]), targets)
    assert auroc(score(around(means[targets])), score(around(3 * generator.standard_normal((60, 90))))) > 0.9


@pytest.mark.parametrize("name", FURTHER_SCORES)
@settings(max_examples=10, deadline=None)
@given(seed=st.integers(2, 10**6), count=st.integers(1, 1100))
def test_the_score_of_an_image_does_not_depend_on_the_batch(name, seed, count):
    score, images = FURTHER_SCORES[name].fit(*training()), table(seed, count)
    rows = np.random.default_rng(seed).permutation(count)[: 1 + seed % count]
    np.testing.assert_allclose(score(select(images, rows)), score(images)[rows], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FURTHER_SCORES)
def test_the_order_of_the_classes_changes_no_score(name):
    (fitted, targets), images, order = training(), table(2, 9), np.array([2, 0, 3, 1])
    plain = FURTHER_SCORES[name].fit(fitted, targets)(images)
    swapped, again = (
        EmbeddingTable(each.known[:, order], each.dummies, each.embeddings, each.weights[order], each.biases[order])
        for each in (fitted, images)
    )
    np.testing.assert_allclose(FURTHER_SCORES[name].fit(swapped, np.argsort(order)[targets])(again), plain, rtol=1e-9)


@pytest.mark.parametrize("name", FURTHER_SCORES)
def test_what_lies_far_from_all_training_images_is_more_unknown_but_for_scores_that_grow_with_the_norm(name):
    (fitted, targets), images = training(), table(2, 200)
    directions = np.random.default_rng(3).standard_normal((200, SIZE))
    far = (30 * directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype("f")
    outliers = EmbeddingTable(
        (far @ fitted.weights.T + fitted.biases).astype("f"), images.dummies, far, fitted.weights, fitted.biases
    )
    score = FURTHER_SCORES[name].fit(fitted, targets)
    if name in ("energy", "GEN"):
        assert np.median(score(outliers)) < np.median(score(images))
    else:
        assert np.median(score(outliers)) > np.median(score(images))


@pytest.mark.parametrize("name", FURTHER_SCORES)
def test_a_network_with_units_that_are_never_active_has_finite_scores(name):
    (fitted, targets), images = training(), table(2, 30)
    for each in (fitted, images):
        each.embeddings[:, :4] = 0
    images.embeddings[0] = 0
    assert np.isfinite(FURTHER_SCORES[name].fit(fitted, targets)(images)).all()


@pytest.mark.parametrize("name", [name for name, score in FURTHER_SCORES.items() if score.needs_embeddings])
def test_logits_without_embeddings_are_refused(name):
    fitted, targets = training()
    with pytest.raises(ConfigError, match=re.escape(f"the score {name} reads embeddings")):
        FURTHER_SCORES[name].fit(fitted, targets)(LogitTable(fitted.known, fitted.dummies))


@pytest.mark.parametrize("name", ["KNN", "KNN-Euclidean"])
def test_neighbours_are_counted_within_the_smallest_class(name):
    fitted, targets = training()
    few = np.flatnonzero((targets != 1) | (np.arange(len(targets)) < 13))  # three images of class 1
    score = FURTHER_SCORES[name].fit(select(fitted, few), targets[few])
    assert score.neighbour == 3
    assert FURTHER_SCORES[name].fit(fitted, targets).neighbour == 10


@pytest.mark.parametrize("name", ["Mahalanobis", "relative-Mahalanobis"])
def test_a_gaussian_of_one_image_per_class_is_refused(name):
    fitted, targets = training(count=4)
    with pytest.raises(CalibrationError, match="4 training images of 4 classes do not"):
        FURTHER_SCORES[name].fit(fitted, targets)


def test_the_generalized_entropy_tells_apart_probabilities_that_round_to_one():
    known = np.array([[40.0, 0, 0], [60.0, 0, 0], [80.0, 0, 0]], np.float32)
    scores = GeneralizedEntropy()(LogitTable(known, known[:, :0]))
    assert (np.diff(scores) < 0).all()
    exact = 2 * math.exp(-0.1 * 80) + (2 * math.exp(-80)) ** 0.1
    np.testing.assert_allclose(scores[2], exact, rtol=1e-9)


def features(each: np.ndarray) -> torch.Tensor:
    return torch.tensor(each)


def of_pytorch_ood(name: str, fitted: EmbeddingTable, targets: np.ndarray, images: EmbeddingTable) -> np.ndarray:
    """Their score, in our units."""
    head = torch.nn.Linear(SIZE, len(fitted.biases))
    with torch.no_grad():
        head.weight.copy_(torch.tensor(fitted.weights))
        head.bias.copy_(torch.tensor(fitted.biases))
    known, points, labels = torch.tensor(images.known), features(images.embeddings), torch.tensor(targets)
    count = len(targets)
    match name:
        case "energy":
            return detector.EnergyBased(None).predict_logits(known).numpy()
        case "GEN":
            return detector.GEN(None, M=10).predict_logits(known).numpy() * min(10, known.shape[1])  # a mean
    theirs, factor = {
        "KNN": (detector.KNN(None, k=10), 1),
        "KNN-Euclidean": (detector.KNN(None, k=10, normalize=False), 1),
        "Mahalanobis": (detector.Mahalanobis(None), 2 * count),  # half of it, and a covariance that is a sum
        "relative-Mahalanobis": (detector.RMD(None), count),
        "ViM": (detector.ViM(None, d=SIZE // 2, w=head.weight, b=head.bias), 1),
        "fDBD": (detector.fDBD(None, head), 1),
    }[name]
    theirs.fit_features(features(fitted.embeddings), labels)
    return factor * theirs.predict_features(points).numpy()


@pytest.mark.parametrize("name", [name for name in FURTHER_SCORES if "cosine" not in name])  # it has no cosine
def test_a_score_is_that_of_pytorch_ood(name):
    (fitted, targets), images = training(count=400), table(2, 50)
    if name == "GEN":  # theirs cuts probabilities off at 1e-7
        images = replace(images, known=images.known / 5)
    expected = of_pytorch_ood(name, fitted, targets, images)
    found = FURTHER_SCORES[name].fit(fitted, targets)(images)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)  # float32 throughout, and a ridge


def test_every_further_score_says_where_it_comes_from():
    for name, score in FURTHER_SCORES.items():
        assert name == score.name
        assert score.source
        assert score.needs_embeddings == issubclass(score, EmbeddingScore)
        assert score.fit(*training()).formula != name
