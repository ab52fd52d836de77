"""The draw of validation and test images: by ranks, without dividing a group."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from proser_core.data.preparation import stratified_rows
from proser_core.data.splits.grouped_draw import draw_rows


@given(st.lists(st.integers(0, 2), min_size=12, max_size=40), st.integers(0, 99), st.sampled_from([1, 2]))
def test_images_that_are_a_group_each_are_drawn_by_their_ranks(extra: list[int], seed: int, left: int):
    targets = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, *extra])
    ranks = np.random.default_rng(seed).permutation(len(targets))
    quotas = np.maximum(1, np.bincount(targets) // 5)
    drawn = draw_rows(targets, np.arange(len(targets)), ranks, quotas, left=left)
    for target, quota in enumerate(quotas):
        own = np.flatnonzero(targets == target)
        assert set(own[drawn[own]]) == set(own[np.argsort(ranks[own])[:quota]])


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), min_size=8, max_size=60),
    st.integers(0, 99),
    st.sampled_from([1, 2]),
)
def test_no_group_is_divided_and_each_class_keeps_groups_of_its_own(images, seed: int, left: int) -> None:
    targets, groups = np.array([(0, 100), (0, 101), (0, 102), (1, 103), (2, 104), *images]).T
    ranks = np.random.default_rng(seed).permutation(len(targets))
    drawn = draw_rows(targets, groups, ranks, np.maximum(1, np.bincount(targets) // 5), left=left)
    assert not set(groups[drawn]) & set(groups[~drawn])
    for target in range(3):
        all_groups, kept = (set(groups[rows & (targets == target)]) for rows in (groups >= 0, ~drawn))
        assert len(kept) >= min(left, len(all_groups))


def test_the_share_of_a_class_is_met_as_nearly_as_its_groups_allow() -> None:
    groups = np.arange(2000) // 10
    drawn = draw_rows(groups % 2, groups, np.random.default_rng(0).permutation(2000), np.array([200, 200]), left=2)
    assert np.bincount(groups[drawn] % 2).tolist() == [200, 200]


def test_a_class_whose_groups_are_all_large_gives_its_smallest() -> None:
    groups = np.repeat(np.arange(3), [40, 50, 60])
    drawn = draw_rows(np.zeros(150, int), groups, np.arange(150)[::-1], np.array([15]), left=2)
    assert set(groups[drawn]) == {0}


def test_a_group_that_leads_as_far_beyond_the_share_as_it_lacks_is_left() -> None:
    drawn = draw_rows(np.zeros(10, int), np.arange(10) // 2, np.arange(10), np.array([3]), left=1)
    assert np.flatnonzero(drawn).tolist() == [0, 1]


def test_a_class_without_an_image_gets_one_though_another_class_of_the_group_has_its_share() -> None:
    targets, groups = np.array([0, 0, 0, 1, 0, 1, 0, 1]), np.array([0, 1, 2, 2, 3, 3, 4, 4])
    drawn = draw_rows(targets, groups, np.arange(8), np.array([1, 1]), left=1)
    assert np.bincount(targets[drawn]).tolist() == [2, 1]


def test_a_group_of_two_classes_is_drawn_where_that_suits_both() -> None:
    targets = np.array([0, *[1] * 9, 0, 0, 0, 1, 1, 1])
    groups = np.array([0] * 10 + list(range(1, 7)))
    drawn = draw_rows(targets, groups, np.arange(16), np.array([1, 1]), left=1)
    assert set(groups[drawn]) == {1, 4}


def test_classes_of_equal_size_have_draws_of_their_own() -> None:
    drawn = stratified_rows(np.repeat([0, 1], 50), ("a", "b"), 0.2, 5, np.arange(100))
    assert drawn[:50].sum() == drawn[50:].sum() == 10
    assert (drawn[:50] != drawn[50:]).any()


def test_a_further_class_leaves_the_validation_images_of_the_others() -> None:
    targets = np.random.default_rng(0).integers(0, 3, 200)
    drawn = stratified_rows(targets, ("a", "b", "c"), 0.1, 5, np.arange(200))
    others = targets != 1
    alone = stratified_rows(targets[others] // 2, ("a", "c"), 0.1, 5, np.arange(200)[others])
    np.testing.assert_array_equal(drawn[others], alone)
    sizes = np.bincount(targets)
    assert np.bincount(targets[drawn]).tolist() == [round(0.1 * size) for size in sizes]
