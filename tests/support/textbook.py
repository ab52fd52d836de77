"""Formulas as textbooks have them, in plain floating-point numbers."""

import math
from collections.abc import Iterable


def softmax(logits: Iterable[float]) -> list[float]:
    values = [float(each) for each in logits]
    powers = [math.exp(each - max(values)) for each in values]
    return [power / sum(powers) for power in powers]
