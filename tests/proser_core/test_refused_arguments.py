"""Arguments of the public library that a caller gets wrong: each error says what was got and what is needed."""

import numpy as np
import pytest

from proser_core import SCORES, Calibration, LogitTable, score
from proser_core.errors import DataError

CALIBRATION = Calibration(bias=0.0, target_rate=0.95, known_rate=0.95, num_images=20, interval=(0.9, 1.0))


def table(count: int = 6, num_known: int = 3, num_dummies: int = 0) -> LogitTable:
    generator = np.random.default_rng(0)
    return LogitTable(*(generator.standard_normal((count, size), np.float32) for size in (num_known, num_dummies)))


@pytest.mark.parametrize("name", ["MSP", "gap"])
def test_nan_logits_are_not_decided(name: str) -> None:
    given = table(num_dummies=2)
    given.known[[1, 4], 2] = np.nan
    with pytest.raises(DataError, match="the logits of 2 of 6 images give NaN"):
        score(given, SCORES[name](), CALIBRATION)
