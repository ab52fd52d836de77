"""Whether a candidate may take a champion's place: paired differences on the same images, or on those of the classes
that both know. Accuracies have Tango's score interval, macro-F1 and AUROC that of the bootstrap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from proser_core.recognition.bootstrap import CONFIDENCE, ends, resamples, too_few
from proser_core.recognition.calibration import Calibration
from proser_core.recognition.scoring import accepted
from proser_core.recognition.validation_scores import COMPARED, Proxy, ValidationScores
from proser_core.titles import METRICS, counted

NORMAL_QUANTILE = 1.96
LEAST = 20
"""Images of common classes, at least, to be compared on."""


@dataclass(frozen=True)
class Difference:
    """One metric of candidate and champion, fractions; candidate minus champion with its 95 % interval."""

    candidate: float
    champion: float
    difference: float
    low: float
    high: float

    def holds(self, tolerance: float) -> bool:
        """Whether the candidate is shown to be no worse than by `tolerance`: the interval lies above that."""
        return self.low >= -tolerance


@dataclass(frozen=True)
class Comparison:
    """Candidate against champion, by those of COMPARED that their images allow.

    With `by_proxies`, macro-F1 and AUROC are those of the same trainings with classes held out, and `num_unknown`
    images are of these.

    `num_known` images are behind the accuracies. `known_rate` is the candidate's on all its own validation images,
    `interval` where its rate on new images lies with 95 % confidence, `target_rate` what it must reach.
    """

    differences: dict[str, Difference]
    known_rate: float
    interval: tuple[float, float]
    target_rate: float
    tolerance: float
    num_known: int
    num_unknown: int
    by_proxies: bool = False
    too_few: str = ""
    """The known and unknown images behind macro-F1 and AUROC, in words, where they allow no interval."""
    common: tuple[str, ...] = ()
    """Where the two know different classes, those that both know; images of these alone are compared, and no unknown
    ones."""
    new_classes: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    """Classes that only the candidate knows: its validation images of them, and the share that it names correctly."""
    lost_classes: tuple[str, ...] = ()
    """Classes that only the champion knows."""

    @property
    def objections(self) -> list[str]:
        """Why the candidate is not to be promoted; empty where it may be."""
        missing = [METRICS[name] for name in COMPARED if name not in self.differences and not self.common]
        found = [f"{' and '.join(missing)}: there are no unknown images of both to compare by"] if missing else []
        if self.too_few:
            found.append(f"{METRICS['macro_f1']} and {METRICS['auroc']}: {self.too_few}; hold out or add more")
        found += [f"the class {name} would no longer be known" for name in self.lost_classes]
        found += [
            f"{METRICS[name]}: {_points(each.difference)} points, at worst {_points(each.low)}"
            f"{self._behind(name)}; {100 * self.tolerance:g} may be lost"
            for name, each in self.differences.items()
            if not each.holds(self.tolerance) and not self.distrusts(name)
        ]
        if self.interval[1] < self.target_rate:
            found.append(
                f"known rate: {100 * self.known_rate:.1f} % of the validation images stay known (95 % interval to "
                f"{100 * self.interval[1]:.1f} %); the target is {100 * self.target_rate:.4g} %"
            )
        return found

    def holds(self, metric: str) -> bool:
        """Whether no more than the tolerance is lost in a metric, and there are enough images to say so."""
        return self.differences[metric].holds(self.tolerance) and not self.distrusts(metric)

    def distrusts(self, metric: str) -> bool:
        """Whether there are too few images for the interval of a metric."""
        return bool(self.too_few) and not metric.endswith("accuracy")

    def _behind(self, metric: str) -> str:
        return f" by {counted(self.num_known, 'known image')}" if metric.endswith("accuracy") else ""


def compare(
    candidate: ValidationScores,
    calibration: Calibration,
    champion: ValidationScores,
    champion_bias: float,
    *,
    tolerance: float,
    proxies: tuple[Proxy, Proxy] | None = None,
) -> Comparison:
    """Both on the same images, each at its own bias, which stays as it was fitted.

    With `proxies`, candidate's and champion's, macro-F1 and AUROC are those of the proxies. Raises ValueError for
    scores of different images.
    """
    bias = calibration.bias
    found = _differences(candidate, bias, champion, champion_bias)
    if proxies is not None:
        ours, theirs = proxies
        found |= _resampled(ours.validation_scores, ours.bias, theirs.validation_scores, theirs.bias)
    unknown = candidate if proxies is None else proxies[0].validation_scores
    return Comparison(
        differences={name: found[name] for name in COMPARED if name in found},
        **_known_rate(candidate, bias),
        num_known=int(candidate.is_known.sum()),
        target_rate=calibration.target_rate,
        tolerance=tolerance,
        num_unknown=int((~unknown.is_known).sum()),
        by_proxies=proxies is not None,
        too_few="" if unknown.is_known.all() else too_few(unknown.is_known),
    )


@dataclass(frozen=True)
class Side:
    """A classifier in a comparison: its scores, its classes in order (as `composed` has them), and its calibration."""

    scores: ValidationScores
    class_names: tuple[str, ...]
    calibration: Calibration

    def on(self, rows: np.ndarray, classes: Sequence[str]) -> ValidationScores:
        """Its scores of images of these classes, numbered anew; a prediction of any other class is the last number."""
        numbers = {name: number for number, name in enumerate(classes)}
        renumbered = np.array([numbers.get(name, len(classes)) for name in self.class_names])
        mine = self.scores.select(rows)
        targets, predictions = renumbered[mine.targets], renumbered[mine.known_predictions]
        return replace(mine, targets=targets, known_predictions=predictions, num_known=len(classes), fingerprint="")


def compare_common(candidate: Side, champion: Side, *, tolerance: float) -> Comparison | None:
    """Two classifiers with different classes, each at its own bias, on the validation images that both have of the
    classes that both know. None where there are fewer than LEAST of these."""
    common = tuple(name for name in candidate.class_names if name in champion.class_names)
    ours, rows = candidate.scores, _same_images(candidate, champion)
    if len(rows) < LEAST:
        return None
    one, other = candidate.on(rows[:, 0], common), champion.on(rows[:, 1], common)
    biases = candidate.calibration.bias, champion.calibration.bias
    new = {}
    for number, name in enumerate(candidate.class_names):
        mine = ours.select(np.flatnonzero(ours.targets == number))
        if name not in champion.class_names and len(mine.targets):
            new[name] = len(mine.targets), float(_named(mine, biases[0])["known_accuracy"].mean())
    return Comparison(
        differences=_accuracies(one, biases[0], other, biases[1]),
        **_known_rate(ours, biases[0]),
        num_known=len(rows),
        target_rate=candidate.calibration.target_rate,
        tolerance=tolerance,
        num_unknown=0,
        common=common,
        new_classes=new,
        lost_classes=tuple(name for name in champion.class_names if name not in candidate.class_names),
    )


def _same_images(candidate: Side, champion: Side) -> np.ndarray:
    """int64[n, 2]: rows of images of known classes that both have, under one name."""
    ours, theirs = candidate.scores, champion.scores
    one, other = ours.contents, theirs.contents
    if one is None or other is None:  # an earlier classifier's, or images that are no files
        one, other = ours.images, theirs.images
    if one is None or other is None:
        return np.zeros((0, 2), np.int64)
    _, mine, others = np.intersect1d(one, other, return_indices=True)
    known = ours.is_known[mine] & theirs.is_known[others]
    return np.array(
        [
            (row, other)
            for row, other in zip(mine[known], others[known], strict=True)
            if candidate.class_names[ours.targets[row]] == champion.class_names[theirs.targets[other]]
        ],
        np.int64,
    ).reshape(-1, 2)


def _named(scores: ValidationScores, bias: float) -> dict[str, np.ndarray]:
    """bool[M] of the images of known classes: named correctly among the known classes, and kept as known besides."""
    right = (scores.known_predictions == scores.targets)[scores.is_known]
    return {"closed_set_accuracy": right, "known_accuracy": right & accepted(scores.known_scores, bias)}


def _known_rate(candidate: ValidationScores, bias: float) -> dict[str, Any]:
    from scipy.stats import binomtest  # slow to load

    known, rate = int(candidate.is_known.sum()), candidate.known_rate(bias)
    interval = binomtest(round(rate * known), known).proportion_ci(CONFIDENCE)
    return {"known_rate": rate, "interval": (float(interval.low), float(interval.high))}


def _differences(
    candidate: ValidationScores, bias: float, champion: ValidationScores, champion_bias: float
) -> dict[str, Difference]:
    """The difference in each metric of COMPARED that the images allow."""
    found = _resampled(candidate, bias, champion, champion_bias)
    accuracy = _accuracies(candidate, bias, champion, champion_bias)["closed_set_accuracy"]
    pairs = ((candidate.scores, champion.scores), (candidate.known_predictions, champion.known_predictions))
    if all(np.array_equal(ours, theirs) for ours, theirs in pairs):  # one network, with another bias
        accuracy = replace(accuracy, low=0.0, high=0.0)
    return found | {"closed_set_accuracy": accuracy}


def _accuracies(
    candidate: ValidationScores, bias: float, champion: ValidationScores, champion_bias: float
) -> dict[str, Difference]:
    """The difference in the share of images of known classes that are named correctly."""
    ours, theirs = _named(candidate, bias), _named(champion, champion_bias)
    return {name: _paired_shares(ours[name], theirs[name]) for name in ours}


def _paired_shares(ours: np.ndarray, theirs: np.ndarray) -> Difference:
    """Difference of the shares of two masks bool[M] of the same images. The bootstrap would give masks that agree
    everywhere an interval of no width, however few images there are."""
    wins, losses = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    one, other = float(ours.mean()), float(theirs.mean())
    low, high = lower_end(wins, losses, len(ours)), -lower_end(losses, wins, len(ours))
    return Difference(one, other, one - other, low, high)


def lower_end(wins: int, losses: int, count: int) -> float:
    """Lower end of the 95 % score interval of (wins - losses) / count for paired shares: the difference from which the
    observed one is NORMAL_QUANTILE standard errors away. Source: Tango 1998, Statistics in Medicine 17, 891."""
    from scipy.optimize import brentq  # slow to load

    def distance(difference: float) -> float:
        of_square, of_line = 2 * count, (2 * count - wins + losses) * difference - wins - losses
        root = np.sqrt(of_line**2 + 4 * of_square * losses * difference * (1 - difference))
        share_lost = (root - of_line) / (2 * of_square)  # the likeliest at this difference
        variance = count * (2 * share_lost + difference * (1 - difference))
        return float(wins - losses - count * difference - NORMAL_QUANTILE * np.sqrt(variance))

    return -1.0 if losses == count else float(brentq(distance, -1.0, (wins - losses) / count - 1e-9))


def _resampled(
    candidate: ValidationScores, bias: float, champion: ValidationScores, champion_bias: float
) -> dict[str, Difference]:
    """The differences in macro-F1 and AUROC, where there are unknown images: by the same resamples for both."""
    if not candidate.is_of_images_of(champion):
        raise ValueError("two classifiers are compared on the same images only")
    if candidate.is_known.all():
        return {}
    ours, theirs = candidate.metrics(bias), champion.metrics(champion_bias)
    drawn: dict[str, list[float]] = {"macro_f1": [], "auroc": []}
    for rows in resamples(candidate.is_known):
        one, other = candidate.select(rows).metrics(bias), champion.select(rows).metrics(champion_bias)
        for name, differences in drawn.items():
            differences.append(one[name] - other[name])
    return {
        name: Difference(ours[name], theirs[name], ours[name] - theirs[name], *ends(differences))
        for name, differences in drawn.items()
    }


def _points(fraction: float) -> str:
    return f"{100 * fraction:+.1f}"
