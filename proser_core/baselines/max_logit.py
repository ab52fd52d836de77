"""Maximum logit (Vaze et al. 2022; Hendrycks et al. 2022)."""

import numpy as np

from proser_core.baselines.method import Method, always
from proser_core.recognition.logits import LogitTable


def max_logit(logits: LogitTable) -> np.ndarray:
    """`-max_k w_k^T phi(x)`, float32[N]."""
    return -logits.known.max(axis=1)


MAX_LOGIT = Method("MaxLogit", "Vaze et al. 2022", always(max_logit))
