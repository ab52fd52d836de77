"""The score of PROSER and its threshold."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from proser_core.config.checks import Block

AUTO = "auto"
"""What development data chooses: a score, or a network."""
NetworkName = Literal["proser", "control", "auto"]


@dataclass(frozen=True, kw_only=True)
class CalibrationConfig(Block):
    """Which network and score decide, and how many known images the bias keeps known."""

    prefix: ClassVar[str] = "calibration."

    target_rate: float = 0.95
    """Share of validation images that stay known. Source: sec. Calibration."""
    dummy_weight: float = 1.0
    """Weight w of the dummies in PROSER's score `w * max dummy logit - max known logit`: 1 is the
    paper's gap, 0 the maximum logit of the network trained with placeholders. See docs/method-notes.md."""

    score: str = ""
    """Score that decides: a name of `proser list scores`, or auto, which chooses for the selected point and each
    control the one with the best macro-F1 on development data. Empty is PROSER's own (`dummy_weight`), which always
    selects the point. See docs/method-notes.md."""
    development: tuple[str, ...] = ()
    """Further development unknowns that auto chooses by, besides data.development: data sets or outlier sets that are
    not tested on, such as noise. The mean over all of them counts, and the best score of each is reported."""
    mirror: bool = False
    """Average logits and embeddings with those of the mirrored image, for all methods alike. Every prediction then
    takes twice as long. See docs/method-notes.md."""

    network: NetworkName = "proser"
    """Network that becomes the model: proser; control, trained by cross-entropy; or auto, the one with the
    better macro-F1 on development data, each by its own score. See docs/method-notes.md."""

    @property
    def reads_embeddings(self) -> bool:
        """Whether an evaluation computes logits and embeddings anew: a score is named or chosen, or images are
        mirrored."""
        return bool(self.score or self.mirror)

    def __post_init__(self) -> None:
        super().__post_init__()
        names = self.development
        self.require("development", len({*names}) == len(names) and "" not in names, "different names")
        self.require("development", not names or self.score == AUTO, f"empty unless calibration.score is {AUTO}")
        self.require("dummy_weight", math.isfinite(self.dummy_weight), "finite")
        self.require("target_rate", 0 < self.target_rate <= 1, "above 0 and at most 1")
