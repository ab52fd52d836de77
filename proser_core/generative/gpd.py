"""Peaks over threshold: the tail of a sample as a generalised Pareto distribution, and where two tails cross best."""

from dataclasses import dataclass
from typing import Self

import numpy as np

TAIL_SHARE = 0.1
"""Share of a sample that is its tail. Source: ports of C2AE; the paper reads the start off the mean excess plot."""
FEWEST = 10
"""Values from which a tail is fitted; with fewer, or all alike, the sample itself has to do."""


@dataclass(frozen=True, eq=False)
class Survival:
    """`P(r > t)` of a sample: the share of it above t, and beyond `start` its generalised Pareto tail,
    `share * (1 + shape * (t - start) / scale) ** (-1 / shape)`.

    `sample` is float64[n], ascending. Without a tail, `share` is 0 and `start` the largest value.
    """

    sample: np.ndarray
    start: float
    share: float
    shape: float
    scale: float

    @classmethod
    def fit(cls, values: np.ndarray) -> Self:
        """The most likely tail of the largest values, by SciPy; float[n] with n at least 1."""
        from scipy.stats import genpareto  # takes a second, for those who use it

        sample = np.sort(values.astype(np.float64))
        start = float(np.quantile(sample, 1 - TAIL_SHARE))
        excesses = sample[sample > start] - start
        if len(excesses) < FEWEST or np.ptp(excesses) == 0:
            return cls(sample, float(sample[-1]), 0.0, 0.0, 1.0)
        unit = float(excesses.mean())  # the search begins near 1
        shape, _, scale = genpareto.fit(excesses / unit, floc=0)
        return cls(sample, start, len(excesses) / len(sample), float(shape), float(scale) * unit)

    def above(self, at: np.ndarray) -> np.ndarray:
        """float64[m]: `P(r > t)` for every t of `at`."""
        from scipy.stats import genpareto

        counted = 1 - np.searchsorted(self.sample, at, side="right") / len(self.sample)
        beyond = self.share * genpareto.sf(at - self.start, self.shape, scale=self.scale)
        return np.where(at > self.start, beyond, counted)


def best_threshold(matched: np.ndarray, unmatched: np.ndarray, p_unknown: float = 0.5) -> float:
    """`argmin_t (1 - p_u) P(matched > t) + p_u P(unmatched < t)` (Oza and Patel 2019), t being one of the
    errors float[n] under the right and float[m] under a wrong label, or midway between two of them; the middle one
    where several are best.

    The left tail of `unmatched` is the right one of its negative.
    """
    errors = np.unique(np.concatenate([matched, unmatched]).astype(np.float64))
    candidates = np.sort(np.concatenate([errors, (errors[1:] + errors[:-1]) / 2]))
    missed = Survival.fit(matched).above(candidates)
    let_in = Survival.fit(-unmatched).above(-candidates)
    costs = (1 - p_unknown) * missed + p_unknown * let_in
    best = np.flatnonzero(costs == costs.min())
    return float(candidates[best[len(best) // 2]])


def right_and_wrong(errors: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors float[N] of images under their own class, and under the next one: of float[N, K] and int64[N]."""
    rows = np.arange(len(targets))
    return errors[rows, targets], errors[rows, (targets + 1) % errors.shape[1]]
