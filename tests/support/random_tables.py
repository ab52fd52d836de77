"""Logits that were drawn."""

import numpy as np

from proser_core.recognition.logit_tables import LogitTable


def table(count: int, num_known: int = 2, num_dummies: int = 3, seed: int = 0) -> LogitTable:
    generator = np.random.default_rng(seed)
    return LogitTable(
        generator.standard_normal((count, num_known)).astype(np.float32),
        generator.standard_normal((count, num_dummies)).astype(np.float32),
    )
