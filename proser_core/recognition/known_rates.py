"""Which share of known images to keep: what each share costs in unknown images, and where the errors cost least."""

from dataclasses import dataclass

import numpy as np

from proser_core.errors import CalibrationError
from proser_core.recognition.result_tables import table_lines
from proser_core.recognition.validation_scores import ValidationScores
from proser_core.titles import percent

RATES = (0.99, 0.95, 0.90, 0.80)
"""Shares of known images to keep that a table shows."""
SHARES, COSTS = (0.01, 0.1, 0.5), (1.0, 10.0)
"""Shares of unknown images, and costs of one that is taken for known, for which a table shows the cheapest rate."""


@dataclass(frozen=True)
class KnownRates:
    """Shares of known images at or below each threshold, float[n], and of unknown images above it, float[n]; thresholds
    rise. The first one calls everything unknown, the last one keeps every known image."""

    kept: np.ndarray
    found: np.ndarray
    num_known: int
    num_unknown: int
    of_proxy: bool = False
    """Measured on a training without some of the classes, of a model that knows them all."""

    @classmethod
    def of(cls, scores: ValidationScores, *, of_proxy: bool = False) -> "KnownRates | None":
        """Every decision that a threshold can make on these images; None without an unknown one."""
        known, unknown = np.sort(scores.known_scores), np.sort(scores.scores[~scores.is_known])
        if not len(unknown):
            return None
        thresholds = np.concatenate([[-np.inf], np.unique(known)])
        kept = np.searchsorted(known, thresholds, side="right") / len(known)
        found = 1 - np.searchsorted(unknown, thresholds, side="right") / len(unknown)
        return cls(kept, found, len(known), len(unknown), of_proxy)

    def found_at(self, rate: float) -> float:
        """Share of unknown images that are found where at least `rate` of the known ones are kept."""
        return float(self.found[self._at(rate)])

    def kept_at(self, rate: float) -> float:
        """Share of known images that is kept at the first threshold that keeps at least `rate`."""
        return float(self.kept[self._at(rate)])

    def cheapest(self, unknown_share: float, cost: float = 1.0) -> float:
        """The share of known images to keep with which errors cost least.

        A share `unknown_share` of the images is unknown, and one of these that is taken for known costs `cost` times as
        much as a known one that is called unknown. The expected cost of an image is (1 - unknown_share) * (1 - kept) +
        unknown_share * cost * (1 - found); of equal ones the largest share kept. Raises CalibrationError where it is
        cheapest to call everything unknown.
        """
        costs = (1 - unknown_share) * (1 - self.kept) + unknown_share * cost * (1 - self.found)
        kept = float(self.kept[np.flatnonzero(costs <= costs.min() + 1e-12)[-1]])
        if not kept:
            raise CalibrationError(
                f"with {100 * unknown_share:g} % unknown images and a cost of {cost:g} it is cheapest to call every "
                "image unknown: the model tells too few of them from known ones. Give a smaller share or cost"
            )
        return kept

    def lines(self) -> list[str]:
        """The rates as Markdown."""
        rates = [(f"{100 * each:g}", percent(self.kept_at(each)), percent(self.found_at(each))) for each in RATES]
        cheapest = [(f"{100 * each:g}", *(self._cheapest_in_words(each, cost) for cost in COSTS)) for each in SHARES]
        proxy = "Of the proxy, which does not know every class. " if self.of_proxy else ""
        return [
            f"{proxy}On {self.num_known} validation images and {self.num_unknown} unknown ones that were not tested "
            "on, in percent:",
            "",
            *table_lines(["target rate", "known images kept", "unknown images found"], rates, ["---:"] * 3),
            "",
            "The cheapest known rate, at which errors cost least, by the share of unknown images in use and the cost "
            "of one that is taken for known, in units of a known one that is called unknown; at 0 all are called "
            "unknown:",
            "",
            *table_lines(
                ["unknown images, %", *(f"cheapest known rate at cost {each:g}, %" for each in COSTS)],
                cheapest,
                ["---:"] * (1 + len(COSTS)),
            ),
            "",
            "`proser calibrate MODEL --data DATA --unknown-share SHARE --cost COST` takes the cheapest rate, "
            "`--target-rate RATE` any other.",
        ]

    def _at(self, rate: float) -> int:
        return int(np.searchsorted(self.kept, rate - 1e-9))

    def _cheapest_in_words(self, share: float, cost: float) -> str:
        try:
            return percent(self.cheapest(share, cost))
        except CalibrationError:
            return percent(0.0)
