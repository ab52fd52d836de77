"""`Method`: a row of a table, by where its logits come from and how a score is fitted to them.

Calibration, metrics and tables are the same for all. Where a network of a method's own must be trained, as in OSRCI,
CROSR or C2AE, the method brings `train`, which writes logits of the same parts as every training; nothing else knows
of it. What such a network says for unknown (a further logit, a reconstruction error) stands in the columns of
`LogitTable.dummies`, from which the score is made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from proser_core.config import FinetuneConfig, Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.recognition.scores import ScoreFunction

if TYPE_CHECKING:
    from proser_core.recognition.logits import LogitTable

Train = Callable[[OpenSetTask, Recipe, Path], None]


@dataclass(frozen=True)
class Method:
    """How a method gives an image a score, larger for unknown.

    name: its row where methods stand side by side. source: paper, with what was decided here in the method notes.
    score: a score function, or the class of one that is fitted to each network.
    finetune: from a recipe's fine-tune to the method's own; None scores the pretrained net.
    train: trains a network of the method's own, and writes `logits.npz` (`save_logits`: val, development and test,
        and train if the score reads it) into the folder; it takes the place of pretrained net and fine-tune.
    """

    name: str
    source: str
    score: ScoreFunction | type[ScoreFunction]
    finetune: Callable[[FinetuneConfig], FinetuneConfig] | None = None
    train: Train | None = None

    @property
    def scores_pretrained(self) -> bool:
        """Whether its logits are those of the pretrained net."""
        return self.finetune is None and self.train is None

    def fit(self, training: "LogitTable", targets: np.ndarray) -> ScoreFunction:
        """Its score for a network, from the logits of N training images and their targets int64[N] in 0..K-1."""
        return self.score if isinstance(self.score, ScoreFunction) else self.score.fit(training, targets)
