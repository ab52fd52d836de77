"""Maximum softmax probability (Hendrycks and Gimpel 2017), the threshold of eq:threshold."""

import numpy as np

from proser_core.baselines.method import Method, always
from proser_core.recognition.logits import LogitTable


def max_softmax_surprisal(logits: LogitTable) -> np.ndarray:
    """`-log max_k softmax(W^T phi)_k`, float64[N].

    The logarithm keeps the order of the probabilities and tells apart those that round to 1.
    """
    known = logits.known.astype(np.float64)
    others = np.sort(known - known.max(axis=1, keepdims=True), axis=1)[:, :-1]
    return np.log1p(np.exp(others).sum(axis=1))


MSP = Method("MSP", "Hendrycks and Gimpel 2017", always(max_softmax_surprisal))
