"""The score of PROSER and its threshold."""

import math
from dataclasses import dataclass
from typing import ClassVar

from proser_core.config.checks import Block


@dataclass(frozen=True, kw_only=True)
class CalibrationConfig(Block):
    """Which score decides, and how many known images its bias keeps known."""

    prefix: ClassVar[str] = "calibration."

    target_rate: float = 0.95
    """Share of validation images that stay known. Source: sec. Calibration."""
    dummy_weight: float = 1.0
    """Weight w of the dummies in PROSER's score `w * max dummy logit - max known logit`: 1 is the
    paper's gap, 0 the maximum logit of the network trained with placeholders. Source: method notes."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require("dummy_weight", math.isfinite(self.dummy_weight), "finite")
        self.require("target_rate", 0 < self.target_rate <= 1, "above 0 and at most 1")
