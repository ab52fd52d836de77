"""How long each method takes to train: from the manifests of what was trained, and fits that are timed here."""

import time
from pathlib import Path

import torch

from proser_core import titles
from proser_core.baselines import METHODS
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError
from proser_core.networks.nets import ClosedSetNet
from proser_core.recognition.logits import compute_logits
from proser_core.store.files import read_json
from proser_core.store.store import MANIFEST

GENERATIVE = ("OSRCI", "GFROSR")
"""Methods of the paper's figure that train a network of their own: a place without a bar where none was timed."""


def training_seconds(pretrained: Path, finetuned: Path, net: ClosedSetNet, task: OpenSetTask) -> dict[str, float]:
    """Wall-clock seconds by method: MSP is the pretraining, PROSER that and its fine-tune.

    A method that is fitted to the training images (OpenMax) is the pretraining, a pass of `net`, the pretrained one,
    over them, and the fit; pass and fit are timed now. One with a network of its own is timed where it is compared
    (`proser reproduce running-time`), not here. Raises ConfigError for a training that does not know its time.
    """
    base = seconds_of(pretrained)
    fitted = {}
    for method in METHODS.values():
        if method.scores_pretrained and method.reads_training:
            started = time.monotonic()
            logits = compute_logits(net, task.train.images, (task.mean, task.std), torch.device("cpu"))
            method.fit(logits, task.train.targets)
            fitted[method.name] = base + time.monotonic() - started
    return {titles.MSP: base, **fitted, titles.PROSER: base + seconds_of(finetuned)}


def seconds_of(training: Path) -> float:
    """Seconds of the epochs of a training, by its folder. Raises ConfigError where its manifest does not say."""
    seconds = float(read_json(training / MANIFEST)["seconds"])
    if seconds <= 0:
        raise ConfigError(f"the training in {training} does not know its time; weights of your own have none")
    return seconds
