"""One bias so that a stated share of known validation images stays known (sec. Calibration)."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv  # scipy.stats takes a second to load

from proser_core.errors import CalibrationError


@dataclass(frozen=True)
class Calibration:
    """A fitted bias: an image is known if and only if its score plus `bias` is at most 0.

    `interval` is the 95 % confidence interval of the known rate on new images of the same distribution. Raises
    CalibrationError for a bias that is not finite, and rates that are no shares.
    """

    bias: float
    target_rate: float
    known_rate: float
    num_images: int
    interval: tuple[float, float]

    def __post_init__(self) -> None:
        rates = self.target_rate, self.known_rate, *self.interval
        if not (math.isfinite(self.bias) and all(0 <= rate <= 1 for rate in rates)):
            raise CalibrationError(f"got {self}; need a finite bias, and rates from 0 to 1: calibrate again")


def calibrate(scores: np.ndarray, target_rate: float = 0.95) -> Calibration:
    """Largest bias, in units of the score, that keeps `target_rate` of the images known.

    scores float[n], larger for unknown, are of known validation images. The bias is minus the
    ceil(target_rate * n)-th smallest score; the paper scans a grid, of which the order statistic is the
    limit. Raises CalibrationError for a rate that is no share, no image, or scores that are not one finite
    number per image.
    """
    if not 0 < target_rate <= 1:
        raise CalibrationError(f"target_rate is {target_rate:g}; need a share above 0 and at most 1, such as 0.95")
    scores = np.asarray(scores)
    if scores.ndim != 1 or scores.dtype.kind not in "fiu":
        raise CalibrationError(f"scores are {scores.dtype}{list(scores.shape)}; need one number per image")
    count = len(scores)
    if count == 0:
        raise CalibrationError("there is no validation image to calibrate with; give known validation images")
    if not np.isfinite(scores).all():
        bad = int((~np.isfinite(scores)).sum())
        raise CalibrationError(f"{bad} of {count} validation scores are not finite; the training has diverged")
    kept = max(1, math.ceil(target_rate * count - 1e-9))  # 0.07 * 100 is 7.000000000000001 in floats
    largest = float(np.sort(scores)[kept - 1])
    low, high = betaincinv(kept, count - kept + 1, [0.025, 0.975])
    accepted = int((scores <= largest).sum())
    if (scores == largest).sum() > 1:  # with ties, the rate is bounded by the next larger order statistic's alone
        high = betaincinv(accepted + 1, count - accepted, 0.975) if accepted < count else 1.0  # Clopper-Pearson
    return Calibration(
        bias=0.0 - largest,  # of 0 not -0
        target_rate=target_rate,
        known_rate=accepted / count,
        num_images=count,
        interval=(float(low), float(high)),
    )


def images_needed(target_rate: float) -> int:
    """The least number of images of which a bias at this rate calls one unknown."""
    return math.ceil((1 - 1e-9) / (1 - target_rate))  # 1 / (1 - 0.9) is a little above 10
