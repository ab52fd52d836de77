"""What a recipe says of a training reaches that training, and no other one."""

import copy
from dataclasses import replace
from typing import Any

import pytest
from small_tasks import CPU, NORMALISATION, SIZE, bit_equal, finetune_config, labelled, tiny_closed_set_net

from proser_core.config import DataConfig, PretrainConfig, Recipe
from proser_core.data.augmentation.batches import TrainingBatches
from proser_core.learning.fit import fit
from proser_core.learning.objectives import ProserObjective
from proser_core.learning.step import Arithmetic
from proser_core.learning.training import train_network
from proser_core.networks.nets import add_placeholders

RECIPE = Recipe(
    data=DataConfig(image_size=SIZE, padding=2, flip=True),
    pretrain=PretrainConfig(epochs=1, batch_size=8),
    finetune=finetune_config(epochs=1, objective="cross_entropy"),
)


def ignore(epoch: int, metrics: dict[str, float], state: Any) -> None:
    """What an epoch is reported to where nobody asks."""


def metrics(kind: str, **changed: dict[str, Any]) -> dict[str, float]:
    """Of one epoch of cross-entropy, with fields of either block changed."""
    blocks = {block: replace(getattr(RECIPE, block), **fields) for block, fields in changed.items()}
    found: list[dict[str, float]] = []
    net, images = tiny_closed_set_net(), labelled(40)
    train_network(
        kind,
        net,
        images,
        NORMALISATION,
        replace(RECIPE, **blocks),
        bf16=False,
        report=lambda epoch, metrics, state: found.append(metrics),
    )
    return found[0]


@pytest.mark.parametrize(("kind", "other"), [("pretrain", "finetune"), ("finetune", "pretrain")])
@pytest.mark.parametrize("fields", [{"flips": "alternating"}, {"rand_augment": 9}], ids=str)
def test_images_are_augmented_as_the_trainings_own_block_says(kind: str, other: str, fields: dict[str, Any]) -> None:
    assert metrics(kind, **{kind: fields}) != metrics(kind) == metrics(kind, **{other: fields})


def test_the_pretraining_alone_smooths_its_labels() -> None:
    smooth = {"label_smoothing": 0.3}
    assert metrics("pretrain", pretrain=smooth) != metrics("pretrain")
    assert metrics("finetune", pretrain=smooth) == metrics("finetune")


@pytest.mark.parametrize("seed", [0, 5])
def test_the_seed_of_the_recipe_draws_the_dummies_the_batches_the_mixtures_and_the_dropout(seed: int) -> None:
    config, images, data = finetune_config(epochs=1), labelled(40), RECIPE.data
    recipe, closed_set = replace(RECIPE, finetune=config, seed=seed), tiny_closed_set_net(dropout=0.5)
    twin = add_placeholders(copy.deepcopy(closed_set), config.num_dummies, seed)
    batches = TrainingBatches(
        images, data, NORMALISATION, batch_size=config.batch_size, seed=seed, purpose="finetune", device=CPU
    )
    fit(ProserObjective(twin, config, seed), batches, config, Arithmetic(CPU, bf16=False), seed=seed, report=ignore)
    net = train_network("finetune", closed_set, images, NORMALISATION, recipe, bf16=False, report=ignore)
    assert bit_equal(net.state_dict(), twin.state_dict())
