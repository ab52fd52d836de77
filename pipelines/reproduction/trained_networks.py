"""The network that a method scores, as it was trained on a class split."""

from dataclasses import dataclass
from pathlib import Path

from pipelines.workflow.trained_split import TrainedSplit
from proser_core.baselines import Method
from proser_core.config import FinetuneConfig
from proser_core.config.own_networks import ScheduleName
from proser_core.errors import TrainingError
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.jobs.network_tables import network_tables
from proser_core.jobs.own_networks.plans import plan_network
from proser_core.jobs.spec import LOGITS
from proser_core.recognition.logit_tables import load_logits
from proser_core.recognition.score_choice import Tables
from proser_core.store.store import Artefact, Store, load_if_complete


@dataclass(frozen=True)
class TrainedNetwork:
    """Folder of the network that a method scores, and every training that led to it, in order; the fine-tune that it
    is of, if any."""

    folder: Path
    trainings: tuple[Path, ...]
    finetune: FinetuneConfig | None = None

    def logits(self) -> Tables:
        """The logits that the training left, of all images."""
        return load_logits(self.folder / LOGITS)

    def tables(self, split: TrainedSplit, store: Store, further: Artefact | None) -> Tables:
        """What scores of embeddings, and averages with mirrored images, are computed by; of the training images those
        of an index. Not of a network of a method's own kind."""
        return network_tables(split.recipe, split.task, self.folder, self.finetune, store, further)


def network_of(method: Method, split: TrainedSplit, own_networks: ScheduleName, store: Store) -> TrainedNetwork | None:
    """What a method scores. None where its fine-tune failed, which the rows of the sweep say. Raises TrainingError
    where a network of its own was not trained."""
    if method.network:
        plan = plan_network(OWN_NETWORKS[method.network], own_networks, split.recipe, split.task, store)
        if plan.outcome() is None:
            raise TrainingError(plan.failure() or "its network was not trained")
        return TrainedNetwork(plan.folder, tuple(each.folder for each in plan.with_parts))
    pretrained = split.pretrained.path
    if method.finetune is None:
        return TrainedNetwork(pretrained, (pretrained,))
    finetune = method.finetune(split.recipe)
    (trial,) = split.trials([finetune], store)
    if load_if_complete(trial.folder) is None:
        return None
    trainings = (trial.folder,) if finetune.start == "scratch" else (pretrained, trial.folder)
    return TrainedNetwork(trial.folder, trainings, finetune)
