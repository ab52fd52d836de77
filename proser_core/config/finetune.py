"""Training with placeholders."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from proser_core.config.checks import is_not_negative, is_positive
from proser_core.config.optimizer import OptimizerConfig, Schedule

Objective = Literal["proser", "cross_entropy"]
Start = Literal["pretrained", "scratch"]
BatchUse = Literal["half", "all"]
MixupPlace = Literal["manifold", "vanilla"]
BatchNormSharing = Literal["shared", "separate"]
LossForm = Literal["paper", "released"]


@dataclass(frozen=True, kw_only=True)
class FinetuneConfig(OptimizerConfig):
    """Training with placeholders: a fine-tune, or a training from the first epoch (`start`)."""

    prefix: ClassVar[str] = "finetune."

    epochs: int = 10
    """Passes over the training images; 10 in the authors' released code."""
    batch_size: int = 128
    """Images in one global batch; 128 in the supplement."""
    lr: float = 0.001
    """Learning rate; 0.001 in the supplement, sec. Implementation Details."""
    schedule: Schedule = "constant"
    """Learning-rate schedule; constant in the authors' released code."""
    objective: Objective = "proser"
    """proser, or cross_entropy for the control, which sees the same images in the same order."""
    start: Start = "pretrained"
    """pretrained begins from the closed-set network, as in the paper. scratch begins from a fresh network
    and trains placeholders from the first epoch. See docs/method-notes.md."""
    batch_use: BatchUse = "half"
    """half feeds one half of each batch to l1 and the other to l2 (supplement). all feeds every
    image to both. See docs/method-notes.md."""
    beta: float = 1.0
    """Weight of the placeholder term in l1 (eq. 5); 1 in the supplement."""
    gamma: float = 0.1
    """Weight of the mixture loss l2 (eq. 7); 0.1 in the supplement."""
    num_dummies: int = 5
    """Number of dummy classifiers C; 5 in the supplement."""
    alpha: float = 2.0
    """Parameter of Beta(alpha, alpha), from which the mixing ratio lambda is drawn; 2 in the supplement."""
    mixup: MixupPlace = "manifold"
    """manifold mixes hidden representations; vanilla mixes images (phi_pre is the identity)."""
    mixture_batch_norm: BatchNormSharing = "shared"
    """shared normalises mixtures and clean images together after the split point. separate normalises
    mixtures alone and leaves the running statistics unchanged. See docs/method-notes.md."""
    loss_form: LossForm = "paper"
    """paper, or released: the first term of l1 and l2 see all C dummies (K+C logits), the target of l2 is
    the first dummy, and pairs of one class are mixed too. See docs/method-notes.md."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require(
            "optimizer",
            self.optimizer == "sgd" or self.start == "scratch",
            "sgd with finetune.start pretrained: muon gives each convolution a scale of its own choice",
        )
        even = f"even, because half of a batch feeds each loss; use {self.batch_size + 1}"
        self.require("batch_size", self.batch_size % 2 == 0, even)
        self.require("beta", is_not_negative(self.beta), "finite and at least 0")
        self.require("gamma", is_not_negative(self.gamma), "finite and at least 0")
        self.require("num_dummies", 1 <= self.num_dummies <= 10_000, "at least 1 and at most 10,000")
        self.require("alpha", is_positive(self.alpha), "finite and above 0")

    @property
    def normalises_halves(self) -> bool:
        """Whether each half of a batch is normalised alone."""
        return self.mixture_batch_norm == "separate" and self.batch_use == "half" and self.objective == "proser"
