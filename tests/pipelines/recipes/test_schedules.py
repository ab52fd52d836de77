"""Pretraining schedules: what they say, and recipes that take them."""

from dataclasses import replace

import pytest

from pipelines.recipes import RECIPES, cifar100_cpu
from pipelines.recipes.schedules import PRETRAINING, fast, schedule_in_words, schedule_note, with_schedule
from proser_core.baselines import METHODS
from proser_core.config import FinetuneConfig


def test_placeholders_from_the_first_epoch_keep_their_losses_on_another_schedule():
    recipe = cifar100_cpu()
    own = replace(recipe, finetune=replace(recipe.finetune, beta=3.0, gamma=0.5))
    changed = with_schedule(own, "short").finetune
    assert (changed.beta, changed.gamma, changed.optimizer, changed.lr) == (3.0, 0.5, "sgd", PRETRAINING["short"]().lr)


def test_the_strong_schedule_is_as_published_for_cifar():
    strong = PRETRAINING["strong"]()
    assert (strong.epochs, strong.batch_size, strong.lr, strong.weight_decay) == (600, 128, 0.1, 1e-4)
    assert (strong.schedule, strong.restarts, strong.rand_augment) == ("cosine_restarts", 2, 6)
    assert strong.label_smoothing == 0


def test_two_schedules_of_one_length_read_differently_in_a_report():
    assert (
        schedule_in_words(PRETRAINING["fast"]()) == "20 epochs of pretraining (muon, one_cycle at 0.02, batches of 64)"
    )
    assert (
        schedule_in_words(PRETRAINING["short"]()) == "20 epochs of pretraining (sgd, one_cycle at 0.1, batches of 64)"
    )


def test_the_strong_schedule_says_what_was_published_for_other_data():
    strong = PRETRAINING["strong"]()
    for epochs in (600, 5):
        assert "theirs for svhn has RandAugment 18" in schedule_note(replace(strong, epochs=epochs), "svhn")
    assert schedule_note(strong, "cifar10") == schedule_note(PRETRAINING["long"](), "svhn") == ""
    assert schedule_note(replace(strong, rand_augment=18), "svhn") == ""  # theirs for SVHN


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("name", PRETRAINING)
def test_every_recipe_can_take_every_schedule(recipe, name):
    replace(RECIPES[recipe](), pretrain=PRETRAINING[name]())


def test_from_scratch_is_as_long_as_the_pretraining_and_the_default_recipes_own():
    recipe = replace(cifar100_cpu(), pretrain=fast(), finetune=FinetuneConfig())
    assert METHODS["PROSER, from scratch"].finetune(recipe) == cifar100_cpu().finetune
