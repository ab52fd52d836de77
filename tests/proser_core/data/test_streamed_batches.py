"""Batches of streamed images are those of the same images in memory, bit for bit."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_tasks import CPU, batches_of, random_images
from streamed_images import Streamed
from test_batches import PLAIN, bytes_of

from proser_core.data.normalisation import evaluation_batches
from proser_core.data.tasks import Labelled


def both(count: int, seed: int = 0) -> tuple[Labelled, Labelled]:
    """The same images in memory and streamed."""
    pixels = random_images(count, seed=seed)
    return Labelled(pixels, np.arange(count)), Labelled(Streamed(pixels), np.arange(count))


@given(
    padding=st.integers(0, 4),
    flip=st.booleans(),
    flips=st.sampled_from(["random", "alternating"]),
    rand_augment=st.sampled_from([0, 9]),
    seed=st.integers(0, 2**32),
    world=st.sampled_from([(0, 1), (0, 2), (1, 2), (2, 3)]),
)
def test_streamed_batches_are_those_in_memory(padding, flip, flips, rand_augment, seed, world):
    options = {"padding": padding, "flip": flip, "flips": flips, "rand_augment": rand_augment, "seed": seed}
    options |= {"rank": world[0], "world_size": world[1]}
    in_memory, streamed = (batches_of(labelled, 6, **options) for labelled in both(20, seed))
    for epoch in (0, 3):
        for a, b in zip(in_memory.epoch(epoch), streamed.epoch(epoch), strict=True):
            assert torch.equal(a.images, b.images)
            assert torch.equal(a.targets, b.targets)
            assert torch.equal(a.global_targets, b.global_targets)


def test_a_rank_asks_for_its_own_images_alone():
    labelled = both(24)[1]
    ranks = [batches_of(labelled, 8, rank=rank, world_size=2) for rank in range(2)]
    for rank in ranks:
        list(rank.epoch(0))
    first, second = labelled.images.asked
    assert len(first) == len(second) == 12
    assert set(first.tolist()).isdisjoint(second.tolist())


def test_an_epoch_that_is_left_early_is_let_go_when_the_next_begins():
    images, in_memory = both(24)[1].images, both(24)[0]
    streamed = batches_of(Labelled(images, np.arange(24)), 8)
    next(streamed.epoch(0))
    assert images.open == 1
    for a, b in zip(batches_of(in_memory, 8).epoch(1), streamed.epoch(1), strict=True):
        assert torch.equal(a.images, b.images)
    assert images.open <= 1


def test_what_is_drawn_of_an_epoch_does_not_grow_with_the_size_of_a_streamed_image():
    draws = batches_of(both(24)[1], 8).draws(0)
    assert draws.starts.shape == (3, 8)


@pytest.mark.parametrize("count", [1, 32, 70])
def test_images_are_scored_in_their_order_and_unaugmented_however_they_come(count):
    for labelled in both(count):
        batches = list(evaluation_batches(labelled.images, PLAIN, CPU))
        np.testing.assert_array_equal(bytes_of(torch.cat(batches)), random_images(count))


@pytest.mark.parametrize(("size", "most"), [(8, 32), (32, 32), (64, 16), (96, 8), (224, 4), (1100, 4)])
def test_a_cpu_is_given_fewer_images_at_a_time_where_they_are_large(size, most):
    """Each batch of 32, as of embeddings, in equal parts."""
    images = np.broadcast_to(np.uint8(7), (33, size, size, 3))
    lengths = list(map(len, evaluation_batches(images, PLAIN, CPU)))
    assert lengths == [most] * (32 // most) + [1]
