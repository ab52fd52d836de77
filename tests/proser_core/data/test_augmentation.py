"""How much training images are changed: not at all, lightly, or strongly."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.datasets import load_sample_images
from small_tasks import CPU, random_images
from torchvision.transforms.v2 import functional as F

from proser_core.config import DataConfig
from proser_core.data.augmentation.batches import MAGNITUDE, TrainingBatches, balanced_order
from proser_core.data.augmentation.rand_augment import draw_operations, rand_augment
from proser_core.data.augmentation.resized_crops import AREA, RATIO, draw_boxes, resized_crops
from proser_core.data.stored import StoredImages
from proser_core.data.tasks import Labelled
from proser_core.rng import keyed_generator

PLAIN = ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def batches(images: np.ndarray | StoredImages, kind: str, size: int = 8, **given: Any) -> TrainingBatches:
    config = DataConfig(image_size=size, padding=1, augmentation=kind)
    labelled = Labelled(images, np.arange(len(images)))
    return TrainingBatches(
        labelled, config, PLAIN, **{"batch_size": 4, "seed": 0, "purpose": "finetune", "device": CPU, **given}
    )


def pixels_of(made: TrainingBatches, epoch: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """uint8[N, H, W, 3] and the rows that they come from."""
    each = list(made.epoch(epoch))
    images = torch.cat([batch.images for batch in each])
    return (images * 255).round().byte().permute(0, 2, 3, 1).numpy(), torch.cat([b.targets for b in each]).numpy()


def test_without_augmentation_images_are_shown_as_they_are() -> None:
    images = random_images(8)
    for flips, magnitude in (("random", 0), ("alternating", 0), ("random", 6)):
        seen, rows = pixels_of(batches(images, "none", flips=flips, rand_augment=magnitude), epoch=1)
        np.testing.assert_array_equal(seen, images[rows])


def test_strong_is_light_and_then_one_operation_of_rand_augment() -> None:
    images = random_images(4)
    light, rows = pixels_of(batches(images, "light"))
    strong, same = pixels_of(batches(images, "strong"))
    drawn = draw_operations(keyed_generator(0, "finetune operations", 0, 0), 4)
    np.testing.assert_array_equal(same, rows)
    np.testing.assert_array_equal(strong, rand_augment(torch.from_numpy(light), drawn, MAGNITUDE).numpy())


def test_a_training_that_has_its_own_magnitude_keeps_it() -> None:
    images = random_images(8)
    light, strong = (pixels_of(batches(images, kind, rand_augment=3))[0] for kind in ("light", "strong"))
    np.testing.assert_array_equal(light, strong)


class TestResizedCrops:
    @given(st.integers(0, 2**32))
    def test_a_box_lies_in_the_image_and_has_the_area_and_the_shape_that_are_drawn(self, seed: int) -> None:
        left, top, width, height = draw_boxes(keyed_generator(seed, "boxes"), 200).T.astype(float)
        for start, side in ((left, width), (top, height)):
            assert (start >= 0).all()
            assert (start + side <= 1 + 1e-6).all()
        inside = (width < 1) & (height < 1)  # a side that was too long is cut
        area, ratio = (width * height)[inside], (width / height)[inside]
        assert AREA[0] - 1e-6 <= area.min() <= area.max() <= AREA[1]
        assert RATIO[0] - 1e-6 <= ratio.min() <= ratio.max() <= RATIO[1] + 1e-6

    def test_high_boxes_are_drawn_as_often_as_wide_ones(self) -> None:
        _, _, width, height = draw_boxes(keyed_generator(0, "boxes"), 20_000).T
        small = width * height < 0.5  # of which no side is cut
        assert np.mean(width[small] > height[small]) == pytest.approx(0.5, abs=0.02)

    @pytest.mark.parametrize("box", [(0, 0, 72, 72), (9, 18, 36, 54), (30, 5, 40, 41)])
    def test_a_crop_is_that_of_torchvision(self, box: tuple[int, int, int, int]) -> None:
        left, top, width, height = box
        photo = torch.from_numpy(load_sample_images().images[0][100:172, 200:272].copy())
        found = resized_crops(photo[None], torch.tensor([box], dtype=torch.float32) / 72)[0]
        expected = F.resized_crop(photo.permute(2, 0, 1), top, left, height, width, [72, 72], antialias=False)
        inner = (slice(2, -2), slice(2, -2))  # at its border torchvision sees nothing beyond the crop
        difference = found[inner].int() - expected.permute(1, 2, 0)[inner].int()
        assert difference.abs().max() <= 1

    def test_large_images_are_cut_and_small_ones_are_not(self) -> None:
        images = np.repeat(random_images(1, 72), 4, axis=0)
        drawn = [batches(images[:, :size, :size], "strong", size).draws(0).boxes for size in (64, 72)]
        assert [each.shape for each in drawn] == [(1, 4, 0), (1, 4, 4)]
        assert DataConfig(image_size=72, augmentation="strong").border == 0

    def test_draws_are_keyed_and_those_of_the_global_batch(self) -> None:
        images = random_images(8, 72)
        whole = batches(images, "strong", 72).draws(3)
        parts = [batches(images, "strong", 72, rank=rank, world_size=2).draws(3) for rank in range(2)]
        order = [0, 2, 1, 3]  # each rank has a part of each half
        assert torch.equal(torch.cat([part.boxes for part in parts], dim=1), whole.boxes[:, order])
        assert torch.equal(torch.cat([part.operations for part in parts], dim=2), whole.operations[:, :, order])
        assert not torch.equal(whole.boxes, batches(images, "strong", 72).draws(4).boxes)

    def test_streamed_images_are_cut_alike(self, tmp_path) -> None:
        images = random_images(4, 72)
        for number, image in enumerate(images):
            Image.fromarray(image).save(tmp_path / f"{number}.png")
        stored = StoredImages.of_files([str(tmp_path / f"{number}.png") for number in range(4)], 72)
        for streamed, held in zip(
            pixels_of(batches(stored, "strong", 72)), pixels_of(batches(images, "strong", 72)), strict=True
        ):
            np.testing.assert_array_equal(streamed, held)


class TestBalancedSampling:
    @given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(0, 2**32))
    def test_an_epoch_has_equally_many_images_of_each_class_and_of_a_class_each_as_often(self, sizes, seed) -> None:
        targets = np.repeat(np.arange(len(sizes)), sizes)
        order = balanced_order(targets, keyed_generator(seed, "order"))
        assert len(order) == len(targets)
        assert np.ptp(np.bincount(targets[order], minlength=len(sizes))) <= 1
        times = np.bincount(order, minlength=len(targets))
        assert all(np.ptp(times[targets == target]) <= 1 for target in range(len(sizes)))

    def test_every_class_has_the_image_more_where_they_cannot_be_equally_many(self) -> None:
        targets = np.arange(40) % 3
        counts = [np.bincount(targets[balanced_order(targets, keyed_generator(seed, "order"))]) for seed in range(20)]
        assert set(map(int, np.argmax(counts, axis=1))) == {0, 1, 2}

    def test_what_is_left_out_of_a_large_class_comes_in_other_epochs(self) -> None:
        images = Labelled(random_images(40), np.array([0] * 36 + [1] * 4))
        config = DataConfig(image_size=8, padding=0, flip=False, sampling="balanced")
        made = TrainingBatches(images, config, PLAIN, batch_size=8, seed=0, purpose="finetune", device=CPU)
        epochs = [made.draws(epoch).rows.flatten().numpy() for epoch in range(8)]
        assert all(np.bincount(images.targets[rows]).tolist() == [20, 20] for rows in epochs)
        assert set(np.concatenate(epochs)) == set(range(40))
