"""Trials whose training is a short sleep; the worker's files, Tune, tracking and the report are real.

The first trial of a process scores its images; the logits of those that follow are copies with noise.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np

from proser_core.data.image_sets import ImageSource
from proser_core.learning import training
from proser_core.recognition import logits
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.logits import compute_logits

EPOCH_SECONDS = 0.05
_NOISE = np.random.default_rng()
_scored: dict[tuple[str, type], LogitTable] = {}


def simulated_trial(config: dict[str, Any]) -> None:
    """In the place of `run_single_trial`; a pretraining is really trained."""
    from pipelines.cluster.train_worker import run_single_trial

    with simulated() if config["job"]["kind"] == "finetune" else nullcontext():
        run_single_trial(config)


@contextmanager
def simulated() -> Iterator[None]:
    """Let the worker of this process only seem to train and to score."""
    with patch.object(training, "fit", _fit), patch.object(logits, "compute_logits", _compute_logits):
        yield


def _fit(objective: Any, batches: Any, config: Any, *_: Any, report: Any, **__: Any) -> None:
    """Epochs without a step, with a checkpoint as large as a real one: weights and momentum."""
    weights = objective.state_dict()
    state = {"objective": weights, "optimizer": {name: value.clone() for name, value in weights.items()}}
    for epoch in range(config.epochs):
        time.sleep(EPOCH_SECONDS)
        report(epoch, {"loss/closed_set": 1.0 / (1 + epoch), "train/lr": config.lr}, {"epoch": epoch, **state})


def _compute_logits(net: Any, images: np.ndarray | ImageSource, *others: Any) -> LogitTable:
    key = (str(getattr(images, "filename", "")), type(net))
    if key not in _scored:
        _scored[key] = compute_logits(net, images, *others)
    table = _scored[key]
    return LogitTable(*(_noisy(getattr(table, head)) for head in ("known", "dummies")))


def _noisy(values: np.ndarray) -> np.ndarray:
    return values + _NOISE.normal(0, 0.1, values.shape).astype(values.dtype)
