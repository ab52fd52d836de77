"""Errors of reconstruction under the right class and under a wrong one."""

import numpy as np


def right_and_wrong(errors: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Errors float[N] of images under their own class, and under the next one: of float[N, K] and int64[N]."""
    rows = np.arange(len(targets))
    return errors[rows, targets], errors[rows, (targets + 1) % errors.shape[1]]
