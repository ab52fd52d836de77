"""Metrics of all settings and thresholds at once against scikit-learn's, one after another, and plain NumPy's."""

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score

from benchmarks.settings import Settings
from benchmarks.setups import NUM_KNOWN
from benchmarks.tables import Cell, Report, Table, Target, comparison
from benchmarks.timing import Variants, alternate, ratios, spread
from proser_core.data.splits.class_split import ClassSplit
from proser_core.recognition.metrics import KnownRanks, macro_f1_curve
from proser_core.recognition.scoring import OpenSetScores

OURS, SCIKIT_LEARN, NUMPY = "at once", "scikit-learn", "NumPy, vectorised"
PLACES, HISTOGRAMS, WHOLE = "places among the thresholds", "two histograms over thresholds and classes", "the whole"
NUM_CLASSES, UNKNOWN_SETTINGS, NUM_THRESHOLDS = 100, (15, 30, 45, 60, 85), 101


class ScoredTestSet:
    """Random scores of 100 test images per class (CIFAR100's number), unknown ones higher by one."""

    def __init__(self, settings: Settings) -> None:
        generator = np.random.default_rng(0)
        self.split = ClassSplit(tuple(range(NUM_KNOWN)), tuple(range(NUM_KNOWN, NUM_CLASSES)), UNKNOWN_SETTINGS)
        self.class_ids = generator.permutation(np.repeat(np.arange(NUM_CLASSES), 10 if settings.quick else 100))
        self.targets = np.minimum(self.class_ids, NUM_KNOWN)
        self.is_known = self.targets < NUM_KNOWN
        scores = (generator.standard_normal(len(self.targets)) - self.is_known).astype(np.float32)
        correct = self.is_known & (generator.random(len(scores)) < 0.8)
        guesses = np.where(correct, self.targets, generator.integers(0, NUM_KNOWN, len(scores)))
        self.scores = OpenSetScores(guesses, scores, NUM_KNOWN, bias=0.0)
        self.thresholds = np.linspace(scores.min(), scores.max(), NUM_THRESHOLDS, dtype=np.float32)
        self.unknown_rows = [np.isin(self.class_ids, self.split.unknown_in(n)) for n in UNKNOWN_SETTINGS]

    def aucs_at_once(self) -> list[float]:
        """AUROC of the five settings from one sort of the known images."""
        scores = self.scores.scores
        ranks = KnownRanks.of(scores[self.is_known], np.zeros(self.is_known.sum(), bool))
        return [ranks.auroc(scores[rows]) for rows in self.unknown_rows]

    def aucs_by_scikit_learn(self) -> list[float]:
        """One call of roc_auc_score a setting."""
        scores = self.scores.scores
        aucs = []
        for unknown in self.unknown_rows:
            rows = self.is_known | unknown
            aucs.append(float(roc_auc_score(unknown[rows], scores[rows])))
        return aucs

    def aucs_by_numpy(self) -> list[float]:
        """The Mann-Whitney statistic of each setting, from the mean ranks of all of its images."""
        scores, aucs = self.scores.scores, []
        for unknown in self.unknown_rows:
            rows = self.is_known | unknown
            _, places, counts = np.unique(scores[rows], return_inverse=True, return_counts=True)
            ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
            above = ranks[unknown[rows]].sum() - unknown.sum() * (unknown.sum() + 1) / 2
            aucs.append(float(above / (self.is_known.sum() * unknown.sum())))
        return aucs

    def curve_at_once(self) -> np.ndarray:
        """Macro-F1 at all thresholds."""
        scores = self.scores
        return macro_f1_curve(scores.scores, scores.known_predictions, self.targets, NUM_KNOWN, self.thresholds)

    def curve_by_scikit_learn(self) -> np.ndarray:
        """One call of f1_score a threshold."""
        scores, curve = self.scores, []
        for threshold in self.thresholds:
            predictions = np.where(scores.scores <= threshold, scores.known_predictions, NUM_KNOWN)
            curve.append(f1_score(self.targets, predictions, average="macro"))
        return np.array(curve)

    def curve_by_numpy(self) -> np.ndarray:
        """Predictions at all thresholds as one array [T, N], and all confusion tables from one histogram of it."""
        scores, size = self.scores, NUM_KNOWN + 1
        accepted = scores.scores <= self.thresholds[:, None]
        predictions = np.where(accepted, scores.known_predictions, NUM_KNOWN)
        cells = (np.arange(NUM_THRESHOLDS)[:, None] * size + self.targets) * size + predictions
        tables = np.bincount(cells.ravel(), minlength=NUM_THRESHOLDS * size**2).reshape(-1, size, size)
        hits, sizes = np.diagonal(tables, axis1=1, axis2=2), tables.sum(axis=1) + tables.sum(axis=2)
        f1 = np.divide(2 * hits, sizes, out=np.zeros(hits.shape), where=sizes > 0)
        return f1.sum(axis=1) / (sizes > 0).sum(axis=1)

    def parts_of_the_curve(self) -> Variants:
        """What `curve_at_once` does with arrays as long as the images, by itself, and all of it."""
        scores, thresholds, width = self.scores.scores, np.sort(self.thresholds), NUM_KNOWN + 2
        rejecting = np.searchsorted(thresholds, scores) * width
        cells = (NUM_THRESHOLDS + 1) * width
        labels = (self.scores.known_predictions, self.targets)
        return {
            PLACES: lambda: np.searchsorted(thresholds, scores),
            HISTOGRAMS: lambda: [np.bincount(rejecting + each, minlength=cells) for each in labels],
            WHOLE: self.curve_at_once,
        }


def run(settings: Settings) -> Report:
    """Times, ratios and the largest difference of the results."""
    test = ScoredTestSet(settings)
    aucs = {OURS: test.aucs_at_once, SCIKIT_LEARN: test.aucs_by_scikit_learn, NUMPY: test.aucs_by_numpy}
    curves = {OURS: test.curve_at_once, SCIKIT_LEARN: test.curve_by_scikit_learn, NUMPY: test.curve_by_numpy}
    auc_table, auc_target = _compare("AUROC of five settings", aucs, 10, settings)
    title = f"Macro-F1 at {NUM_THRESHOLDS} thresholds"
    f1_table, f1_target = _compare(title, curves, 1000, settings)
    return Report([auc_table, f1_table, _parts(title, test, settings)], [auc_target, f1_target])


def _compare(what: str, variants: Variants, bound: float, settings: Settings) -> tuple[Table, Target]:
    results = {name: np.asarray(call()) for name, call in variants.items()}
    difference = max(np.abs(results[OURS] - result).max() for result in results.values())
    samples = alternate(variants, settings)
    table = comparison(what, samples, SCIKIT_LEARN, (f"Largest absolute difference of the results: {difference:.1e}.",))
    return table, Target(f"{what} against scikit-learn", spread(ratios(samples, SCIKIT_LEARN, OURS))[0], bound)


def _parts(what: str, test: ScoredTestSet, settings: Settings) -> Table:
    samples = alternate(test.parts_of_the_curve(), settings)
    rows: list[tuple[Cell, ...]] = [
        (name, *spread([1000 * value for value in values]), 100 * spread(ratios(samples, name, WHOLE))[0])
        for name, values in samples.items()
    ]
    columns = ("part", "median ms", "q1", "q3", "% of the whole")
    note = "The rest: which guesses are right, sums over thresholds and classes."
    return Table(f"{what}, {OURS}: its parts", columns, rows, (note,))
