"""RandAugment on batches against torchvision's own, image by image."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_batches import bytes_of, make, numbered
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import RandAugment

from proser_core.data.augmentation.rand_augment import OPERATIONS, draw_operations, rand_augment
from proser_core.rng import keyed_generator

NAMES = tuple(OPERATIONS)
LIBRARY = RandAugment(num_ops=1)


def of_torchvision(pixels: torch.Tensor, name: str, negative: bool, magnitude: int) -> torch.Tensor:
    """One image uint8[H, W, 3] through torchvision's kernel at the magnitude that torchvision gives it."""
    scale, signed = LIBRARY._AUGMENTATION_SPACE[name]
    values = scale(31, *pixels.shape[:2])
    strength = 0.0 if values is None else float(values[magnitude])
    strength = -strength if signed and negative else strength
    image = pixels.permute(2, 0, 1)
    fill = LIBRARY._fill
    changed = LIBRARY._apply_image_or_video_transform(image, name, strength, InterpolationMode.NEAREST, fill)
    return changed.permute(1, 2, 0)


def random_pixels(count: int, height: int, width: int, seed: int) -> torch.Tensor:
    """Noise, and smooth ramps: noise alone would leave an equalisation without a task."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randint(0, 256, (count, height, width, 3), generator=generator)
    ramps = torch.linspace(30, 180, width)[None, None, :, None] + noise // 8
    return torch.where((torch.arange(count) % 2 == 0)[:, None, None, None], noise, ramps).to(torch.uint8)


def test_the_operations_are_those_of_torchvision():
    assert tuple(LIBRARY._AUGMENTATION_SPACE) == NAMES
    assert [operation.signed for operation in OPERATIONS.values()] == [
        signed for _, signed in LIBRARY._AUGMENTATION_SPACE.values()
    ]


@pytest.mark.parametrize("magnitude", [1, 6, 9, 18, 30])
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_through_one_operation_equals_torchvision_image_by_image(name, magnitude):
    for height, width in ((32, 32), (16, 20)):
        pixels = random_pixels(6, height, width, seed=magnitude)
        for negative in (0, 1):
            draw = np.stack([np.full(6, NAMES.index(name)), np.full(6, negative)])
            result = rand_augment(pixels, draw, magnitude)
            expected = [of_torchvision(image, name, bool(negative), magnitude) for image in pixels]
            assert torch.equal(result, torch.stack(expected))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 10**6))
def test_each_image_of_a_mixed_batch_goes_through_the_operation_drawn_for_it(count, magnitude, seed):
    pixels, draw = random_pixels(count, 12, 12, seed), draw_operations(np.random.default_rng(seed), count)
    before = pixels.clone()
    result = rand_augment(pixels, draw, magnitude)
    for image, operation, negative, changed in zip(pixels, *draw, result, strict=True):
        assert torch.equal(changed, of_torchvision(image, NAMES[operation], bool(negative), magnitude))
    assert torch.equal(pixels, before)


@pytest.mark.parametrize("name", NAMES)
def test_every_strength_of_the_scale_is_that_of_torchvision(name):
    scale, _ = LIBRARY._AUGMENTATION_SPACE[name]
    values = scale(31, 32, 48)
    strengths = [OPERATIONS[name].strength(magnitude, 32, 48) for magnitude in range(31)]
    found = [round(each) for each in strengths] if name == "Posterize" else strengths
    assert found == ([0.0] * 31 if values is None else values.tolist())


def test_every_operation_and_both_signs_are_drawn_about_equally_often():
    operations, negative = draw_operations(np.random.default_rng(0), 14_000)
    counts = np.bincount(operations, minlength=14)
    assert ((counts > 850) & (counts < 1150)).all()
    assert 6700 < negative.sum() < 7300


def test_batches_are_cropped_and_mirrored_first_and_the_draws_of_those_stay_as_they_were():
    labelled = numbered(24)
    plain = list(make(labelled, 8).epoch(2))
    augmented = list(make(labelled, 8, rand_augment=9).epoch(2))
    for step, (before, after) in enumerate(zip(plain, augmented, strict=True)):
        draw = draw_operations(keyed_generator(0, "finetune operations", 2, step), 8)
        expected = rand_augment(torch.from_numpy(bytes_of(before.images)), draw, 9)
        np.testing.assert_array_equal(bytes_of(after.images), expected)
        assert torch.equal(before.targets, after.targets)
