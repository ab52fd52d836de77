"""`Method`: a row of a table, by where its logits come from and how a score is fitted to them.

Calibration, metrics and tables are the same for all. Where a network of a method's own must be trained, as in OSRCI,
CROSR or C2AE, the method names it; several methods may score one network. What such a network says for unknown (a
further logit, a reconstruction error) stands in the columns of `LogitTable.dummies`, from which the score is made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from proser_core.config import FinetuneConfig, Recipe
from proser_core.errors import ConfigError
from proser_core.recognition.scores import ScoreFunction
from proser_core.titles import MAX_LOGIT, PRETRAINED, scored

if TYPE_CHECKING:
    from proser_core.recognition.logit_tables import LogitTable

OwnRule = Callable[[ScoreFunction, "LogitTable", Mapping[str, Any]], np.ndarray]
"""From a fitted score, N images and the facts of the network to bool[N, K+1]: which classes the rule calls an image,
the last one for unknown. A rule that asks each class by itself may call it several, or none."""


@dataclass(frozen=True)
class Method:
    """How a method gives an image a score, larger for unknown.

    name: its row where methods stand side by side. source: paper, with what was decided here in the method notes.
    score: a score function, or the class of one that is fitted to each network.
    finetune: from a recipe to the method's own fine-tune; None scores the pretrained net.
    network: one of the method's own, by its name in `OWN_NETWORKS`, in the place of pretrained net and fine-tune.
    own_rule: the decision that its authors published, where that is not a threshold that keeps 95 % of known images;
        macro-F1 by it is a second number.
    by_default: whether a reproduction takes it without being asked; not where its fine-tune begins from a fresh
        network. Those with a network of their own are asked for by --own-networks.
    """

    name: str
    source: str
    score: ScoreFunction | type[ScoreFunction]
    finetune: Callable[[Recipe], FinetuneConfig] | None = None
    network: str = ""
    own_rule: OwnRule | None = None
    by_default: bool = True

    def __post_init__(self) -> None:
        """Raises ConfigError for a score of dummies that the network does not have."""
        if self.score.needs_dummies and self.scores_pretrained:
            raise ConfigError(
                f"{self.name} scores the pretrained net, which has no dummies, and the score {self.score.name} reads "
                "them; give it a finetune, or a score whose needs_dummies is False"
            )

    @property
    def scores_pretrained(self) -> bool:
        """Whether its logits are those of the pretrained net."""
        return self.finetune is None and not self.network

    @property
    def network_title(self) -> str:
        """The network that it scores, as rows of its other scores begin."""
        return PRETRAINED if self.scores_pretrained else self.network or self.name.removesuffix(scored("", MAX_LOGIT))
