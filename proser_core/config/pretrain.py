"""Closed-set training."""

from dataclasses import dataclass
from typing import ClassVar

from proser_core.config.optimizer import OptimizerConfig


@dataclass(frozen=True, kw_only=True)
class PretrainConfig(OptimizerConfig):
    """Closed-set training by cross-entropy, from scratch."""

    prefix: ClassVar[str] = "pretrain."

    label_smoothing: float = 0.0
    """Share of the target that is spread over all classes. Source: Vaze et al. 2022."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("label_smoothing", 0 <= self.label_smoothing < 1, "at least 0 and below 1")
