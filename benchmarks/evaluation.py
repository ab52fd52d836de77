"""Metrics of all settings and thresholds at once against scikit-learn's, one after another."""

from collections.abc import Callable

import numpy as np
from sklearn.metrics import f1_score, roc_auc_score

from benchmarks.settings import Settings
from benchmarks.setups import NUM_KNOWN
from benchmarks.tables import Report, Table, Target, comparison
from benchmarks.timing import alternate, ratios, spread
from proser_core.data.splits import ClassSplit
from proser_core.recognition.metrics import KnownRanks, macro_f1_curve
from proser_core.recognition.scoring import OpenSetScores

OURS, SCIKIT_LEARN = "at once", "scikit-learn"
NUM_CLASSES, UNKNOWN_SETTINGS, NUM_THRESHOLDS = 100, (15, 30, 45, 60, 85), 101


class ScoredTestSet:
    """Random margins on 100 test images a class (CIFAR100's number), known ones higher by one."""

    def __init__(self, settings: Settings) -> None:
        generator = np.random.default_rng(0)
        self.split = ClassSplit(tuple(range(NUM_KNOWN)), tuple(range(NUM_KNOWN, NUM_CLASSES)), UNKNOWN_SETTINGS)
        self.class_ids = generator.permutation(np.repeat(np.arange(NUM_CLASSES), 10 if settings.quick else 100))
        self.targets = np.minimum(self.class_ids, NUM_KNOWN)
        self.is_known = self.targets < NUM_KNOWN
        margins = (generator.standard_normal(len(self.targets)) + self.is_known).astype(np.float32)
        correct = self.is_known & (generator.random(len(margins)) < 0.8)
        guesses = np.where(correct, self.targets, generator.integers(0, NUM_KNOWN, len(margins)))
        self.scores = OpenSetScores(guesses, margins, NUM_KNOWN, bias=0.0)
        self.thresholds = np.linspace(margins.min(), margins.max(), NUM_THRESHOLDS, dtype=np.float32)
        self.unknown_rows = [np.isin(self.class_ids, self.split.unknown_in(n)) for n in UNKNOWN_SETTINGS]

    def aucs_at_once(self) -> list[float]:
        """AUC of the five settings from one sort of the known images."""
        margins = self.scores.margins
        ranks = KnownRanks.of(margins[self.is_known], np.zeros(self.is_known.sum(), bool))
        return [ranks.auroc(margins[rows]) for rows in self.unknown_rows]

    def aucs_by_scikit_learn(self) -> list[float]:
        """One call of roc_auc_score a setting."""
        margins = self.scores.margins
        aucs = []
        for unknown in self.unknown_rows:
            rows = self.is_known | unknown
            aucs.append(float(roc_auc_score(unknown[rows], -margins[rows])))
        return aucs

    def curve_at_once(self) -> np.ndarray:
        """Macro-F1 at all thresholds."""
        scores = self.scores
        return macro_f1_curve(scores.margins, scores.known_predictions, self.targets, NUM_KNOWN, self.thresholds)

    def curve_by_scikit_learn(self) -> np.ndarray:
        """One call of f1_score a threshold."""
        scores, curve = self.scores, []
        for threshold in self.thresholds:
            predictions = np.where(scores.margins >= threshold, scores.known_predictions, NUM_KNOWN)
            labels = range(NUM_KNOWN + 1)
            curve.append(f1_score(self.targets, predictions, labels=labels, average="macro", zero_division=0))
        return np.array(curve)


def run(settings: Settings) -> Report:
    """Times, ratios and the largest difference of the results."""
    test = ScoredTestSet(settings)
    auc_table, auc_target = _compare("AUC of five settings", test.aucs_at_once, test.aucs_by_scikit_learn, 10, settings)
    title = f"Macro-F1 at {NUM_THRESHOLDS} thresholds"
    f1_table, f1_target = _compare(title, test.curve_at_once, test.curve_by_scikit_learn, 1000, settings)
    return Report([auc_table, f1_table], [auc_target, f1_target])


def _compare(
    what: str, ours: Callable[[], object], theirs: Callable[[], object], bound: float, settings: Settings
) -> tuple[Table, Target]:
    difference = np.abs(np.asarray(ours()) - np.asarray(theirs())).max()
    samples = alternate({OURS: ours, SCIKIT_LEARN: theirs}, settings)
    table = comparison(what, samples, SCIKIT_LEARN, (f"Largest absolute difference of the results: {difference:.1e}.",))
    return table, Target(f"{what} against scikit-learn", spread(ratios(samples, SCIKIT_LEARN, OURS))[0], bound)
