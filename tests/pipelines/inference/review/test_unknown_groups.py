"""Groups of unknown images by their embeddings: blobs, strays, and too few for a group."""

from pathlib import Path

import numpy as np
import pytest

from pipelines.inference.unknown_groups import grouped, review_images
from proser_core.data.readers.image_files import count_images
from proser_core.recognition.open_set_classifier import OpenSetClassifier


def test_of_a_part_with_unknown_images_their_embeddings_alone_are_kept(model: Path, photos: Path) -> None:
    paths = [str(photos)]
    found = review_images(OpenSetClassifier.load(model), paths, count_images(paths), "cpu", lambda done: None)
    assert found.embeddings
    assert all(each.base is None for each in found.embeddings), "a view keeps the embeddings of the whole part"


def test_blobs_are_groups_and_what_lies_between_them_is_nearest_to_one() -> None:
    generator = np.random.default_rng(0)
    centres = np.eye(12)[:3]
    points = [each + 0.03 * generator.normal(size=12) for each in np.repeat(centres, [30, 20, 10], axis=0)]
    points += [np.eye(12)[5 + number] - centres.T @ [0.2, 0.2, 0.1] for number in range(3)]  # far from all
    groups = grouped(points, 5)
    assert [set(group.rows) for group in groups] == [set(range(30)), set(range(30, 50)), set(range(50, 60))]
    assert [set(group.further) for group in groups] == [set(), set(), {60, 61, 62}]
    directions = np.array(points[:30]) / np.linalg.norm(points[:30], axis=1, keepdims=True)
    nearness = directions @ directions.mean(axis=0)
    assert list(groups[0].rows) == sorted(range(30), key=lambda row: -nearness[row]), "the most typical first"


@pytest.mark.parametrize("count", [0, 1, 4])
def test_fewer_images_than_a_group_are_none(count: int) -> None:
    assert grouped([np.ones(3)] * count, 5) == []


@pytest.mark.parametrize(("images", "noise", "strays"), [(12, 0.0, 0), (40, 1e-3, 0), (6, 0.03, 0), (60, 0.03, 10)])
def test_images_of_one_kind_are_one_group_and_strays_are_its_last(images: int, noise: float, strays: int) -> None:
    generator = np.random.default_rng(0)
    points = [*(np.eye(64)[0] + noise * generator.normal(size=(images, 64)))]
    points += [*(np.eye(64)[1 : 1 + strays])]
    (group,) = grouped(points, 5)
    assert set(group.rows[:images]) == set(range(images))
    assert set(group.rows[images:]) == set(range(images, images + strays))
    assert not len(group.further)
