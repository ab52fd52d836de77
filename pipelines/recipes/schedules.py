"""Pretraining schedules by name, and how a report words them."""

from collections.abc import Callable
from dataclasses import replace

from proser_core.config import PretrainConfig, Recipe
from proser_core.config.named_finetunes import from_the_first_epoch
from proser_core.naming import look_up
from proser_core.titles import counted


def short() -> PretrainConfig:
    """20 epochs, one-cycle to 0.1, batch 64: for a CPU."""
    return PretrainConfig(epochs=20, batch_size=64, lr=0.1, schedule="one_cycle")


def long() -> PretrainConfig:
    """200 epochs, cosine from 0.1 with warm-up, batch 128: the length of the authors' released code."""
    return PretrainConfig(epochs=200, batch_size=128, lr=0.1, schedule="cosine", weight_decay=5e-4)


def strong() -> PretrainConfig:
    """600 epochs, three cosines from 0.1, RandAugment: Vaze et al. 2022, for CIFAR.

    `STRONG_ELSEWHERE` has theirs for other data. Their classifier32 has dropout 0.2.
    """
    return PretrainConfig(
        epochs=600,
        batch_size=128,
        lr=0.1,
        schedule="cosine_restarts",
        restarts=2,
        weight_decay=1e-4,
        rand_augment=6,
        label_smoothing=0.0,
    )


def fast() -> PretrainConfig:
    """20 epochs of Muon, one-cycle to 0.02, batch 64, Nesterov momentum, alternating flips.

    docs/results/search.md compares it with 60 epochs of SGD.
    """
    return PretrainConfig(
        epochs=20, batch_size=64, optimizer="muon", lr=0.02, schedule="one_cycle", nesterov=True, flips="alternating"
    )


PRETRAINING: dict[str, Callable[[], PretrainConfig]] = {"short": short, "long": long, "strong": strong, "fast": fast}
"""Schedules for `proser run RECIPE --pretraining NAME`, instead of the recipe's own."""
WITHOUT_DROPOUT = ("short", "fast")
"""Schedules of few epochs: dropout, above all of the input, would slow them down badly."""
STRONG_ELSEWHERE = {
    "mnist": "RandAugment 8",
    "svhn": "RandAugment 18",
    "tiny-imagenet": "RandAugment 9, label smoothing 0.9, and Adam with learning rate 0.01",
}
"""Settings of Vaze et al. for other data sets than CIFAR, instead of the schedule `strong`."""


def schedule_note(pretrain: PretrainConfig, data_set: str) -> str:
    """A note for readers of results where `strong` trains another data set than CIFAR; else empty."""
    usual, differing = strong(), ("optimizer", "lr", "rand_augment", "label_smoothing")
    is_strong = all(getattr(pretrain, name) == getattr(usual, name) for name in differing)
    if not is_strong or data_set not in STRONG_ELSEWHERE:
        return ""
    return (
        f"--pretraining strong is Vaze et al.'s for CIFAR; theirs for {data_set} has {STRONG_ELSEWHERE[data_set]}, and "
        "their published numbers are of that"
    )


def schedule_in_words(pretrain: PretrainConfig) -> str:
    """A schedule as text for reports; schedules of the same length read differently."""
    how = f"{pretrain.optimizer}, {pretrain.schedule} at {pretrain.lr:g}, batches of {pretrain.batch_size}"
    return f"{counted(pretrain.epochs, 'epoch')} of pretraining ({how})"


def with_schedule(recipe: Recipe, name: str) -> Recipe:
    """The recipe with another schedule, also where placeholders are trained from the first epoch; without dropout where
    the schedule is short. Raises ConfigError for an unknown name."""
    pretrain = look_up("pretraining schedule", name, PRETRAINING)()
    network, finetune = recipe.network, recipe.finetune
    if name in WITHOUT_DROPOUT:
        network = replace(network, dropout=0.0)
    if finetune.start == "scratch":
        finetune = from_the_first_epoch(finetune, pretrain)
    return replace(recipe, pretrain=pretrain, network=network, finetune=finetune)
