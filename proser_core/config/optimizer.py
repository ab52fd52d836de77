"""Gradient descent, which pretraining and fine-tuning share; and the pretraining, which adds one field."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from proser_core.config.checks import Block, is_not_negative, is_positive

OptimizerName = Literal["sgd", "muon"]
Schedule = Literal["constant", "one_cycle", "cosine", "cosine_restarts"]
Flips = Literal["random", "alternating"]


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(Block):
    """Gradient descent with momentum over a number of epochs."""

    epochs: int = 20
    """Passes over the training images. See docs/method-notes.md."""
    batch_size: int = 64
    """Images in one global batch, over all workers. See docs/method-notes.md."""
    optimizer: OptimizerName = "sgd"
    """sgd, or muon (Jordan 2024). Muon makes the momentum of each convolution orthogonal and fixes the scale
    of its weight; all other parameters use SGD at 5 times `lr`. Each optimizer needs its own rate:
    --pretraining fast sets muon and its rate, short sets those of sgd. See docs/method-notes.md."""
    lr: float = 0.1
    """Peak learning rate; 0.02 suits muon. See docs/method-notes.md."""
    schedule: Schedule = "one_cycle"
    """Learning-rate schedule, advanced every step: one_cycle (rises over 30 %, then falls by a cosine),
    cosine (5 % warm-up, then falls), cosine_restarts (1/60 warm-up, then `restarts + 1` equal cosines
    down to a thousandth of the peak; Vaze et al. 2022), constant. See docs/method-notes.md."""
    restarts: int = 2
    """Restarts of cosine_restarts. Source: Vaze et al. 2022, released code."""
    momentum: float = 0.9
    """Momentum. Source: supplement, sec. Implementation Details."""
    nesterov: bool = False
    """Use Nesterov momentum. Source: common in short schedules."""
    weight_decay: float = 5e-4
    """L2 penalty; with muon, of all parameters but convolutions. Source: the authors' released code."""
    averaging: float = 0.0
    """Decay per step of an exponential moving average of the weights, which is then the result and still
    holds decay ** steps of the first weights. 0 keeps the last weights. See docs/method-notes.md."""
    flips: Flips = "random"
    """How images are mirrored if `data.flip` is on: random, or alternating (each image is mirrored in every
    second epoch). Source: Jordan 2024 (airbench)."""
    rand_augment: int = 0
    """Magnitude 0..30 of one RandAugment operation per image (Cubuk et al. 2020). 0 is that of `data.augmentation`:
    9 if strong, else none. Ignored if that is none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("epochs", self.epochs >= 1, "at least 1")
        self.require("batch_size", self.batch_size >= 2, "at least 2 images")
        self.require("lr", is_positive(self.lr), "a finite number above 0")
        self.require("restarts", self.restarts >= 0, "0 or more")
        self.require("momentum", 0 <= self.momentum < 1, "at least 0 and below 1")
        self.require("momentum", self.momentum > 0 or not self.nesterov, "above 0 with nesterov")
        self.require("weight_decay", is_not_negative(self.weight_decay), "finite and at least 0")
        self.require("averaging", 0 <= self.averaging < 1, "at least 0 and below 1")
        self.require("rand_augment", 0 <= self.rand_augment <= 30, "between 0 and 30")


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(OptimizerConfig):
    """Closed-set training by cross-entropy, before any fine-tune."""

    prefix: ClassVar[str] = "pretrain."

    label_smoothing: float = 0.0
    """Share of the target that is spread over all classes. Source: Vaze et al. 2022."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("label_smoothing", 0 <= self.label_smoothing < 1, "at least 0 and below 1")
