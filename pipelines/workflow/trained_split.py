"""`TrainedSplit`: a class split and its pretrained network."""

from collections.abc import Sequence
from dataclasses import dataclass

from proser_core.config import FinetuneConfig, Recipe
from proser_core.jobs.trials import Trial, plan_trials
from proser_core.store.store import Artefact, Store


@dataclass(frozen=True)
class TrainedSplit:
    """A class split with its pretrained network: what fine-tunes start from."""

    recipe: Recipe
    task: Artefact
    pretrained: Artefact

    @property
    def index(self) -> int:
        """Which class split."""
        return self.recipe.data.split_index

    def trials(self, finetunes: Sequence[FinetuneConfig], store: Store) -> list[Trial]:
        """The trials of these fine-tunes, equal ones once."""
        return plan_trials(self.recipe, finetunes, self.task, self.pretrained, store)
