"""Metrics of open-set recognition. Unknown is the positive class; 0.5 is chance, never flipped.

All are fractions. AUROC and OSCR of every setting share one sort of the known images: for AUROC each
known image finds its place among a setting's unknown ones, for OSCR each unknown one among the known.
"""

from dataclasses import dataclass

import numpy as np

from proser_core.data.splits.class_split import ClassSplit, Setting, setting_name
from proser_core.errors import DataError
from proser_core.recognition.scoring import OpenSetScores

POSITIVE_RATE = 0.95  # share of unknown images that must be found, for FPR95


@dataclass(frozen=True)
class SettingMetrics:
    """Metrics of one test setting; an outlier set has no openness."""

    openness: float | None
    auroc: float
    aupr: float
    fpr95: float
    oscr: float
    macro_f1: float


@dataclass(frozen=True)
class TestMetrics:
    """Metrics on the test images: those without unknown images, and one block for each setting."""

    closed_set_accuracy: float
    balanced_accuracy: float
    known_rate: float
    known_accuracy: float
    settings: dict[Setting, SettingMetrics]

    def flat(self) -> dict[str, float]:
        """The metrics by name: `closed_set_accuracy`, `unknown_15/auroc`, `omniglot/auroc` and so on."""
        flat = {name: value for name, value in vars(self).items() if name != "settings"}
        for setting, metrics in self.settings.items():
            named = {f"{setting_name(setting)}/{name}": value for name, value in vars(metrics).items()}
            flat |= {name: value for name, value in named.items() if value is not None}
        return flat


def check_settings(class_ids: np.ndarray, split: ClassSplit) -> None:
    """Raises DataError where there is no test image of a known class, or of the unknown ones of a setting, by the
    images' classes in the data set's own numbering, int64[N]."""
    if not np.isin(class_ids, split.known).any():
        raise DataError("there is no test image of a known class; give some, with unknown ones for each setting")
    for setting in split.settings:
        if not np.isin(class_ids, split.unknown_in(setting)).any():
            raise DataError(
                f"the test setting {setting_name(setting)} has no image of its unknown classes; give some, or omit it"
            )


def evaluate_settings(
    scores: OpenSetScores, targets: np.ndarray, class_ids: np.ndarray, split: ClassSplit
) -> TestMetrics:
    """All metrics of all settings from one pass over the test images.

    targets int64[N] in 0..K (K unknown); class_ids int64[N] in the data set's own numbering. Raises DataError where
    there is no known image, or no unknown one of a setting, and for a score that is not finite.
    """
    bad = int((~np.isfinite(scores.scores)).sum())
    if bad:
        raise DataError(f"{bad} of {len(targets)} test scores are not finite, as they must be; check the test logits")
    is_known = targets < scores.num_known
    check_settings(class_ids, split)
    predictions = scores.predictions
    correct = scores.known_predictions[is_known] == targets[is_known]
    known = scores.scores[is_known]
    ranks = KnownRanks.of(known, correct)
    settings: dict[Setting, SettingMetrics] = {}
    for setting in split.settings:
        rows = np.isin(class_ids, split.unknown_in(setting))
        unknown = scores.scores[rows]
        both = is_known | rows
        settings[setting] = SettingMetrics(
            openness=split.openness(setting),
            auroc=ranks.auroc(unknown),
            aupr=aupr(known, unknown),
            fpr95=fpr_at_positive_rate(known, unknown),
            oscr=ranks.oscr(unknown),
            macro_f1=open_set_macro_f1(predictions[both], targets[both], scores.num_known),
        )
    return TestMetrics(
        closed_set_accuracy=float(correct.mean()),
        balanced_accuracy=balanced_accuracy(correct, targets[is_known]),
        known_rate=float(scores.accepted[is_known].mean()),
        known_accuracy=float((predictions[is_known] == targets[is_known]).mean()),
        settings=settings,
    )


@dataclass(frozen=True)
class KnownRanks:
    """The known images' scores in order, with the running share of correctly classified ones."""

    sorted_scores: np.ndarray
    correct_below: np.ndarray  # [n+1]: correct images before a position, as a share of all

    @classmethod
    def of(cls, scores: np.ndarray, correct: np.ndarray) -> "KnownRanks":
        """scores float[n] and correct bool[n] of the known images."""
        order = np.argsort(scores, kind="stable")
        return cls(scores[order], np.concatenate([[0], np.cumsum(correct[order])]) / len(scores))

    def auroc(self, unknown_scores: np.ndarray) -> float:
        """Probability that an unknown image has a larger score than a known one, ties half."""
        below, up_to = places(np.sort(unknown_scores), self.sorted_scores)
        twice_pairs = 2 * len(below) * len(unknown_scores)
        return float((twice_pairs - below.sum() - up_to.sum()) / twice_pairs)

    def oscr(self, unknown_scores: np.ndarray) -> float:
        """Area under correct classification rate against false positive rate (Dhamija et al. 2018)."""
        below, up_to = places(self.sorted_scores, np.sort(unknown_scores)[::-1])
        return float((self.correct_below[below] + self.correct_below[up_to]).mean() / 2)


def places(in_order: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many of `in_order` are below each score, and how many are not above it: int64[N] both.

    Scores that are sorted too are found three times as fast.
    """
    return np.searchsorted(in_order, scores, side="left"), np.searchsorted(in_order, scores, side="right")


def auroc(known_scores: np.ndarray, unknown_scores: np.ndarray) -> float:
    """Area under the ROC curve of telling unknown from known, by scores float[n] and float[m], larger for unknown.
    Raises DataError where one of them is empty, has NaN, or is not one number per image."""
    known_scores, unknown_scores = np.asarray(known_scores), np.asarray(unknown_scores)
    for name, each in (("known_scores", known_scores), ("unknown_scores", unknown_scores)):
        if each.ndim != 1 or each.dtype.kind not in "fiu":
            raise DataError(f"{name} are {each.dtype}{list(each.shape)}; need one number per image")
    if not len(known_scores) or not len(unknown_scores):
        raise DataError(
            f"an AUROC needs known and unknown images; got {len(known_scores)} and {len(unknown_scores)} scores"
        )
    missing = int(np.isnan(known_scores).sum() + np.isnan(unknown_scores).sum())
    if missing:
        total = len(known_scores) + len(unknown_scores)
        raise DataError(f"{missing} of {total} scores are NaN, which has no order; check the logits")
    return KnownRanks.of(known_scores, np.zeros(len(known_scores), bool)).auroc(unknown_scores)


def aupr(known_scores: np.ndarray, unknown_scores: np.ndarray) -> float:
    """Average precision with unknown as the positive class."""
    from sklearn.metrics import average_precision_score  # with pandas, which a prediction does not need

    is_unknown = np.concatenate([np.zeros(len(known_scores)), np.ones(len(unknown_scores))])
    return float(average_precision_score(is_unknown, np.concatenate([known_scores, unknown_scores])))


def fpr_at_positive_rate(known_scores: np.ndarray, unknown_scores: np.ndarray) -> float:
    """Share of known images rejected by the strictest threshold that finds 95 % of the unknown ones."""
    found = max(1, int(np.ceil(POSITIVE_RATE * len(unknown_scores) - 1e-9)))
    threshold = np.sort(unknown_scores)[len(unknown_scores) - found]
    return float((known_scores >= threshold).mean())


def balanced_accuracy(correct: np.ndarray, targets: np.ndarray) -> float:
    """Mean over the classes that occur of the share of their images that are correct, bool[N]; targets int64[N]."""
    counts = np.bincount(targets)
    shares = np.bincount(targets, weights=correct)[counts > 0] / counts[counts > 0]
    return float(shares.mean())


def open_set_macro_f1(predictions: np.ndarray, targets: np.ndarray, num_known: int) -> float:
    """Unweighted mean F1 over the K known classes and unknown, of predictions and targets int64[N] in 0..K; K is
    unknown.

    A class that neither occurs nor is predicted is left out, as in scikit-learn. Raises DataError for values outside
    0..K, and for no image.
    """
    if num_known < 1:
        raise DataError(f"num_known is {num_known}; need the number of known classes, at least 1")
    predictions, targets = np.asarray(predictions), np.asarray(targets)
    for name, each in (("predictions", predictions), ("targets", targets)):
        if each.ndim != 1 or each.dtype.kind not in "iu":
            raise DataError(f"{name} are {each.dtype}{list(each.shape)}; need one integer per image")
        if each.size and not 0 <= each.min() <= each.max() <= num_known:
            raise DataError(
                f"{name} run from {each.min()} to {each.max()}; need 0 to {num_known - 1} for the known classes, and "
                f"{num_known} for unknown"
            )
    if len(predictions) != len(targets):
        raise DataError(f"got {len(predictions)} predictions and {len(targets)} targets; need one of each per image")
    if not len(targets):
        raise DataError("a macro-F1 needs images; got none")
    true, called = (each.astype(np.int64) for each in (targets, predictions))
    hits, occur, calls = (np.bincount(each, minlength=num_known + 1) for each in (true[true == called], true, called))
    return float(_mean_f1(hits, occur + calls))


def macro_f1_of_calls(calls: np.ndarray, targets: np.ndarray) -> float:
    """Unweighted mean F1 of the classes, each against the rest, where an image is called several of them or none.

    calls bool[N, K+1], targets int64[N] in 0..K. With one call per image it is `open_set_macro_f1`.
    """
    true = targets[:, None] == np.arange(calls.shape[1])
    return float(_mean_f1((calls & true).sum(axis=0), calls.sum(axis=0) + true.sum(axis=0)))


def _mean_f1(hits: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Over the last dimension, the classes: hits of each, and its true plus predicted images. Of none it is 0."""
    occurs = sizes > 0
    f1 = np.divide(2 * hits, sizes, out=np.zeros(hits.shape), where=occurs)
    return f1.sum(axis=-1) / np.maximum(occurs.sum(axis=-1), 1)


def confusion_matrix(targets: np.ndarray, predictions: np.ndarray, num_known: int) -> np.ndarray:
    """int64[K+1, K+1]: images by true and by called class, of targets and predictions int64[N] in 0..K."""
    size = num_known + 1
    true, called = (np.asarray(each, np.int64) for each in (targets, predictions))
    return np.bincount(true * size + called, minlength=size * size).reshape(size, size)
