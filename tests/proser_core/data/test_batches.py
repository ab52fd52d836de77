from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import CPU, NORMALISATION, batches_of

from proser_core.config import DataConfig
from proser_core.data.augmentation.batches import half_slices
from proser_core.data.normalisation import Normaliser
from proser_core.data.tasks import Labelled
from proser_core.errors import ConfigError, DataError
from proser_core.rng import keyed_generator

PLAIN = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
make = partial(batches_of, normalisation=PLAIN)


def numbered(count: int, size: int = 8, seed: int = 0) -> Labelled:
    """Random images whose target is their own row, so that a batch tells what is in it."""
    images = np.random.default_rng(seed).integers(0, 256, (count, size, size, 3), dtype=np.uint8)
    return Labelled(images, np.arange(count))


def pad_flip_slice(image: np.ndarray, padding: int, flip: bool, top: int, left: int) -> np.ndarray:
    height, width = image.shape[:2]
    padded = np.zeros((height + 2 * padding, width + 2 * padding, 3), np.uint8)
    padded[padding : padding + height, padding : padding + width] = image
    if flip:
        padded = padded[:, ::-1]
    return padded[top : top + height, left : left + width]


def bytes_of(images: torch.Tensor) -> np.ndarray:
    return (images * 255).round().byte().permute(0, 2, 3, 1).numpy()


@settings(max_examples=20)
@given(st.integers(0, 4), st.booleans(), st.integers(0, 2**32), st.integers(0, 5))
def test_a_crop_is_a_slice_of_the_padded_perhaps_mirrored_image(padding, flip, seed, epoch):
    labelled = numbered(6, seed=seed)
    for step, batch in enumerate(make(labelled, 3, padding=padding, flip=flip, seed=seed).epoch(epoch)):
        draw = keyed_generator(seed, "finetune augmentation", epoch, step)
        tops, lefts = draw.integers(0, 2 * padding + 1, size=(2, 3))
        mirrored = draw.integers(0, 2, size=3).astype(bool) & flip
        for i, (pixels, row) in enumerate(zip(bytes_of(batch.images), batch.targets.tolist(), strict=True)):
            expected = pad_flip_slice(labelled.images[row], padding, bool(mirrored[i]), tops[i], lefts[i])
            np.testing.assert_array_equal(pixels, expected)


def test_every_offset_and_both_mirror_images_occur():
    image = numbered(1).images
    labelled = Labelled(np.repeat(image, 64, axis=0), np.zeros(64, int))
    options = {
        pad_flip_slice(image[0], 1, flip, top, left).tobytes()
        for flip in (False, True)
        for top in range(3)
        for left in range(3)
    }
    batches = make(labelled, 64, padding=1)
    seen = {
        pixels.tobytes() for epoch in range(8) for batch in batches.epoch(epoch) for pixels in bytes_of(batch.images)
    }
    assert seen == options
    assert len(options) == 18


def mirrored_rows(labelled: Labelled, epoch: int, **options) -> set[int]:
    """Rows of the images that are mirrored in an epoch; none is its own mirror image."""
    rows = set()
    for batch in make(labelled, 6, padding=0, flips="alternating", **options).epoch(epoch):
        for pixels, row in zip(bytes_of(batch.images), batch.targets.tolist(), strict=True):
            mirrored = np.array_equal(pixels, labelled.images[row][:, ::-1])
            assert mirrored or np.array_equal(pixels, labelled.images[row])
            rows |= {row} if mirrored else set()
    return rows


@given(st.integers(0, 2**32), st.integers(0, 30))
def test_alternating_flips_mirror_each_image_in_exactly_every_second_epoch(seed, epoch):
    labelled = numbered(24, seed=seed)
    this, following, one_later = (mirrored_rows(labelled, epoch + more, seed=seed) for more in range(3))
    assert this | following == set(range(24))
    assert this.isdisjoint(following)
    assert one_later == this


def test_alternating_flips_mirror_about_half_of_the_images_and_none_where_flips_are_off():
    labelled = numbered(300)
    assert 110 < len(mirrored_rows(labelled, 0)) < 190
    assert mirrored_rows(labelled, 0) != mirrored_rows(labelled, 0, seed=1)
    assert mirrored_rows(labelled, 0, flip=False) == mirrored_rows(labelled, 1, flip=False) == set()


def test_flips_that_no_task_has_decided_are_refused():
    with pytest.raises(ConfigError, match=r"data\.flip is auto, .* give `task\.augmented\(data\)`"):
        _ = DataConfig(name="folder", flip="auto").flips


def test_alternating_flips_leave_order_and_crops_as_they_were():
    random, alternating = make(numbered(24), 6).epoch(1), make(numbered(24), 6, flips="alternating").epoch(1)
    for a, b in zip(random, alternating, strict=True):
        assert torch.equal(a.targets, b.targets)
        same = (a.images == b.images).flatten(1).all(1)
        assert same.any()


def test_an_epoch_visits_every_image_once_save_the_rest_of_a_division():
    batches = make(numbered(26), 8)
    seen = torch.cat([batch.targets for batch in batches.epoch(3)]).tolist()
    assert batches.steps_per_epoch == 3
    assert len(seen) == len(set(seen)) == 24


@pytest.mark.parametrize("other", [{"epoch": 1}, {"seed": 1}, {"purpose": "pretrain"}])
def test_another_epoch_seed_or_purpose_has_other_batches(other):
    epoch = other.pop("epoch", 0)
    first = torch.cat([batch.targets for batch in make(numbered(24), 8).epoch(0)])
    second = torch.cat([batch.targets for batch in make(numbered(24), 8, **other).epoch(epoch)])
    assert not torch.equal(first, second)


def test_the_same_epoch_has_the_same_batches_whatever_epochs_were_before_it():
    batches = make(numbered(24), 8)
    list(batches.epoch(0))
    for a, b in zip(batches.epoch(1), make(numbered(24), 8).epoch(1), strict=True):
        assert torch.equal(a.images, b.images)
        assert torch.equal(a.targets, b.targets)


@pytest.mark.parametrize("rand_augment", [0, 12])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
def test_the_slices_of_all_ranks_make_the_global_batch_in_both_halves(world_size, rand_augment):
    def batches(**rank):
        return list(make(numbered(50), 24, rand_augment=rand_augment, **rank).epoch(1))

    whole, ranks = batches(), [batches(rank=rank, world_size=world_size) for rank in range(world_size)]
    for step, batch in enumerate(whole):
        parts = [rank[step] for rank in ranks]
        part = 12 // world_size
        for name in ("images", "targets"):
            first = [getattr(p, name)[:part] for p in parts]
            second = [getattr(p, name)[part:] for p in parts]
            assert torch.equal(torch.cat(first + second), getattr(batch, name))
        assert all(torch.equal(p.global_targets, batch.targets) for p in parts)


@given(st.integers(1, 8), st.integers(1, 20))
def test_rank_slices_are_equally_large_and_cover_the_batch_once(world_size, per_rank):
    batch_size = world_size * per_rank
    slices = [half_slices(batch_size, rank, world_size) for rank in range(world_size)]
    assert all(len(positions) == per_rank for positions in slices)
    assert sorted(np.concatenate(slices).tolist()) == list(range(batch_size))


def test_too_few_images_for_one_batch_are_refused_with_the_largest_size_that_fits():
    with pytest.raises(ConfigError, match=r"finetune.batch_size 8 is more than the 7 training images; use at most 6"):
        make(numbered(7), 8)


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.uint64])
def test_targets_of_any_integers_are_those_of_a_loss(kind):
    (batch,) = make(Labelled(numbered(8).images, np.arange(8, dtype=kind)), 8).epoch(0)
    assert batch.targets.dtype == batch.global_targets.dtype == torch.int64
    assert sorted(batch.targets.tolist()) == list(range(8))


def test_images_that_are_no_bytes_are_refused():
    """They would be divided by 255 once more, and grey ones taken for embeddings."""
    bytes_ = np.zeros((8, 8, 8, 3), np.uint8)
    for images in (bytes_ / 255, bytes_[..., 0]):
        with pytest.raises(DataError, match=r"images are .*; need uint8\[N, height, width, 3\]"):
            batches_of(Labelled(images, np.zeros(8, np.int64)))


def test_the_normaliser_subtracts_the_mean_and_divides_by_the_standard_deviation():
    pixels = numbered(3).images
    mean, std = (np.array(values) for values in NORMALISATION)
    normalise = Normaliser(NORMALISATION, CPU)
    for part in (pixels, pixels[:, :, :5], pixels[:, 1:2, :1]):  # one normaliser for images of any width
        expected = ((part / 255.0 - mean) / std).transpose(0, 3, 1, 2)
        result = normalise(torch.from_numpy(part))
        assert result.dtype == torch.float32
        assert result.is_contiguous(memory_format=torch.channels_last)
        np.testing.assert_allclose(result, expected, atol=1e-5)
