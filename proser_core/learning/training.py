"""One training as a recipe states it: network, objective, batches, and the loop over them."""

import torch

from proser_core.config import Recipe
from proser_core.data.augmentation.batches import TrainingBatches
from proser_core.data.normalisation import Normalisation
from proser_core.data.tasks import Labelled
from proser_core.learning.fit import Report, State, fit
from proser_core.learning.objectives import CrossEntropyObjective, ProserObjective
from proser_core.learning.ranks import current_world
from proser_core.learning.step import Arithmetic
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet, add_placeholders


def train_network(
    kind: str,
    closed_set: ClosedSetNet,
    images: Labelled,
    normalisation: Normalisation,
    recipe: Recipe,
    *,
    bf16: bool,
    report: Report,
    resume: State | None = None,
) -> ClosedSetNet | PlaceholderNet:
    """Train `closed_set` in place, as the recipe's `pretrain` or `finetune` (`kind`) states; a fine-tune with
    placeholders returns it with dummies beside its classifier.

    The images are training images of known classes. `report` and `resume` are those of `fit`. Raises ConfigError where
    the images do not fill a batch, TrainingError where the loss is not finite.
    """
    config, _ = recipe.training(kind)
    closed_set.backbone.keeps_statistics = kind == "finetune" and recipe.network.features == "head-first"
    net, objective = _with_objective(kind, closed_set, recipe)
    device, (rank, world_size) = training_device(recipe), current_world()
    batches = TrainingBatches(
        images,
        recipe.data,
        normalisation,
        batch_size=config.batch_size,
        seed=recipe.seed,
        purpose=kind,
        device=device,
        rank=rank,
        world_size=world_size,
        flips=config.flips,
        rand_augment=config.rand_augment,
    )
    fit(objective, batches, config, Arithmetic(device, bf16), seed=recipe.seed, report=report, resume=resume)
    return net


def _with_objective(
    kind: str, closed_set: ClosedSetNet, recipe: Recipe
) -> tuple[ClosedSetNet | PlaceholderNet, CrossEntropyObjective | ProserObjective]:
    if kind == "pretrain":
        return closed_set, CrossEntropyObjective(closed_set, recipe.pretrain.label_smoothing)
    if recipe.finetune.objective == "cross_entropy":
        return closed_set, CrossEntropyObjective(closed_set)
    net = add_placeholders(closed_set, recipe.finetune.num_dummies, recipe.seed)
    return net, ProserObjective(net, recipe.finetune, recipe.seed)


def scoring_device(recipe: Recipe) -> torch.device:
    """A GPU of this process where the recipe trains on GPUs and one is here, else the CPU."""
    return torch.device("cuda" if recipe.cluster.uses_gpu and torch.cuda.is_available() else "cpu")


def training_device(recipe: Recipe) -> torch.device:
    """The GPU of this process where the recipe asks for one, else the CPU."""
    return torch.device("cuda", torch.cuda.current_device()) if recipe.cluster.uses_gpu else torch.device("cpu")
