"""One bias so that a stated share of known validation images stays known (sec. Calibration)."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from proser_core.errors import CalibrationError


@dataclass(frozen=True)
class Calibration:
    """A fitted bias: an image is known if and only if its margin is at least `bias`.

    `interval` is where the known rate on new images of the same distribution lies with 95 %
    confidence.
    """

    bias: float
    target_rate: float
    known_rate: float
    num_images: int
    interval: tuple[float, float]


def calibrate(margins: np.ndarray, target_rate: float = 0.95) -> Calibration:
    """Largest bias, in units of the margin, that keeps `target_rate` of the images known.

    margins float[n] are of known validation images: `max known logit - max dummy logit` for
    PROSER. The bias is the ceil(target_rate * n)-th largest margin; the paper scans a grid, of
    which the order statistic is the limit. Raises CalibrationError for no image or a margin
    that is not finite.
    """
    count = len(margins)
    if count == 0:
        raise CalibrationError("there is no validation image to calibrate with; raise data.val_fraction")
    if not np.isfinite(margins).all():
        bad = int((~np.isfinite(margins)).sum())
        raise CalibrationError(f"{bad} of {count} validation margins are not finite; the training has diverged")
    kept = max(1, math.ceil(target_rate * count - 1e-9))  # 0.07 * 100 is 7.000000000000001 in floats
    bias = float(np.sort(margins)[count - kept])
    low, high = beta.ppf([0.025, 0.975], kept, count - kept + 1)
    return Calibration(
        bias=bias,
        target_rate=target_rate,
        known_rate=float((margins >= bias).mean()),
        num_images=count,
        interval=(float(low), float(high)),
    )
