"""Digits as a user's own images: their classes, and the recipe for them."""

from dataclasses import replace

from training_jobs import tiny_recipe

from pipelines.recipes import folder
from proser_core.config import Recipe

NAMES = ("eight", "five", "four", "nine", "one", "zero")
VALUES = {"eight": 8, "five": 5, "four": 4, "nine": 9, "one": 1, "zero": 0}


def own_recipe() -> Recipe:
    """The recipe for a user's own images, with the sizes of the tiny one."""
    own, tiny = folder(), tiny_recipe()
    return replace(
        own,
        precision="fp32",
        data=replace(own.data, image_size=8, padding=1, val_fraction=0.3),
        pretrain=tiny.pretrain,
        finetune=replace(own.finetune, epochs=2),
    )
