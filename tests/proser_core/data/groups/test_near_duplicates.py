"""Near duplicates: changed copies of a scene, not other scenes, and links that form the groups of all pairs."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageEnhance
from scenes import as_jpeg, scene

from proser_core.data.near_duplicates import (
    LEAST_CORRELATION,
    MOST_BITS,
    SIZE,
    Looks,
    components,
    links_by_looks,
    looks_of,
)


def looks(*images: Image.Image):
    return looks_of(np.stack([np.asarray(image.convert("RGB").resize((SIZE, SIZE))) for image in images]))


@pytest.mark.parametrize(
    "changed",
    [
        as_jpeg,
        lambda image: image.resize((50, 70)),
        lambda image: ImageEnhance.Brightness(image).enhance(1.2),
        lambda image: image.rotate(1, Image.Resampling.BICUBIC),
        lambda image: image.crop((1, 1, 119, 119)),
    ],
    ids=["jpeg", "resized", "brighter", "turned", "cropped"],
)
def test_a_changed_copy_is_a_near_duplicate(changed: Callable[[Image.Image], Image.Image]) -> None:
    originals = [scene(number) for number in range(6)]
    pairs = links_by_looks(looks(*originals, *map(changed, originals)))
    assert pairs.tolist() == [[number, number + 6] for number in range(6)]


def test_images_without_contrast_are_near_duplicates_where_they_are_equal() -> None:
    black, white = (Image.new("RGB", (SIZE, SIZE), color) for color in ("black", "white"))
    assert links_by_looks(looks(white, black, white)).tolist() == [[0, 2]]


def test_different_scenes_are_no_near_duplicates() -> None:
    assert not len(links_by_looks(looks(*(scene(number) for number in range(16)))))


def test_images_without_contrast_are_compared_without_a_warning() -> None:
    assert not len(links_by_looks(looks(*(Image.new("RGB", (9, 9), shade) for shade in ("black", "white", "red")))))


def every_pair(found: Looks) -> list[tuple[int, int]]:
    """The definition, pair by pair."""

    def near(first: int, second: int) -> bool:
        bits = bin(int(found.hashes[first]) ^ int(found.hashes[second])).count("1")
        return bits <= MOST_BITS and np.corrcoef(found.patterns[[first, second]])[0, 1] >= LEAST_CORRELATION

    return [pair for pair in itertools.combinations(range(len(found.hashes)), 2) if near(*pair)]


@pytest.mark.parametrize("copies", [1, 5, 40])
def test_links_form_the_groups_of_all_pairs_and_are_fewer_than_images(copies: int, monkeypatch) -> None:
    monkeypatch.setattr("proser_core.data.near_duplicates.AT_ONCE", 100)
    frames = [scene(number % (80 // copies), number % 4) for number in range(80)]
    found = looks(*frames)
    pairs, links = every_pair(found), links_by_looks(found)
    np.testing.assert_array_equal(components(links, 80), components(np.array(pairs).reshape(-1, 2), 80))
    assert len(links) == 80 - len(np.unique(components(links, 80)))
    assert set(map(tuple, links.tolist())) <= set(pairs)
    of_kinds = links_by_looks(found, lambda pairs: pairs.sum(axis=1) % 2)
    for kind in (0, 1):
        linked = of_kinds[of_kinds.sum(axis=1) % 2 == kind]
        alone = np.array([pair for pair in pairs if sum(pair) % 2 == kind]).reshape(-1, 2)
        np.testing.assert_array_equal(components(linked, 80), components(alone, 80))
