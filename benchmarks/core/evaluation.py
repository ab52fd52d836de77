"""AUROC of all settings at once against scikit-learn's, one after another, and plain NumPy's."""

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Target, comparison
from benchmarks.harness.timing import alternate, median_ratio
from benchmarks.variants.setups import NUM_KNOWN
from proser_core.data.splits.class_split import ClassSplit
from proser_core.recognition.metrics import KnownRanks

OURS, SCIKIT_LEARN, NUMPY = "at once", "scikit-learn", "NumPy, vectorised"
NUM_CLASSES, UNKNOWN_SETTINGS = 100, (15, 30, 45, 60, 85)


class ScoredTestSet:
    """Random scores of 100 test images per class (CIFAR100's number), unknown ones higher by one."""

    def __init__(self, settings: Settings) -> None:
        generator = np.random.default_rng(0)
        self.split = ClassSplit(tuple(range(NUM_KNOWN)), tuple(range(NUM_KNOWN, NUM_CLASSES)), UNKNOWN_SETTINGS)
        self.class_ids = generator.permutation(np.repeat(np.arange(NUM_CLASSES), 10 if settings.quick else 100))
        self.is_known = self.class_ids < NUM_KNOWN
        self.scores = (generator.standard_normal(len(self.is_known)) - self.is_known).astype(np.float32)
        self.unknown_rows = [np.isin(self.class_ids, self.split.unknown_in(n)) for n in UNKNOWN_SETTINGS]

    def aucs_at_once(self) -> list[float]:
        """AUROC of the five settings from one sort of the known images."""
        scores = self.scores
        ranks = KnownRanks.of(scores[self.is_known], np.zeros(self.is_known.sum(), bool))
        return [ranks.auroc(scores[rows]) for rows in self.unknown_rows]

    def aucs_by_scikit_learn(self) -> list[float]:
        """One call of roc_auc_score per setting."""
        scores = self.scores
        aucs = []
        for unknown in self.unknown_rows:
            rows = self.is_known | unknown
            aucs.append(float(roc_auc_score(unknown[rows], scores[rows])))
        return aucs

    def aucs_by_numpy(self) -> list[float]:
        """The Mann-Whitney statistic of each setting, from the mean ranks of all of its images."""
        scores, aucs = self.scores, []
        for unknown in self.unknown_rows:
            rows = self.is_known | unknown
            _, places, counts = np.unique(scores[rows], return_inverse=True, return_counts=True)
            ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
            above = ranks[unknown[rows]].sum() - unknown.sum() * (unknown.sum() + 1) / 2
            aucs.append(float(above / (self.is_known.sum() * unknown.sum())))
        return aucs


def run(settings: Settings) -> Report:
    """Times, ratios and the largest difference of the results."""
    test = ScoredTestSet(settings)
    variants = {OURS: test.aucs_at_once, SCIKIT_LEARN: test.aucs_by_scikit_learn, NUMPY: test.aucs_by_numpy}
    results = {name: np.asarray(call()) for name, call in variants.items()}
    difference = max(np.abs(results[OURS] - result).max() for result in results.values())
    note = f"Largest absolute difference of the results: {difference:.1e}."
    samples = alternate(variants, settings)
    target = Target("AUROC of five settings against scikit-learn", median_ratio(samples, SCIKIT_LEARN, OURS), 10)
    return Report([comparison("AUROC of five settings", samples, SCIKIT_LEARN, (note,))], [target])
