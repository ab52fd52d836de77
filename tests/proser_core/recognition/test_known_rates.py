"""Which known rate: the shares at every threshold, and the one at which errors cost least, against slow twins."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proser_core.errors import CalibrationError
from proser_core.recognition.calibration import calibrate
from proser_core.recognition.known_rates import KnownRates
from proser_core.recognition.validation_scores import ValidationScores

SCORES = st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0]) | st.floats(-5, 5), min_size=1, max_size=40)
SHARES = st.sampled_from([0.01, 0.1, 0.5, 0.9])
COSTS = st.sampled_from([0.1, 1.0, 10.0])


def rates_of(known: list[float], unknown: list[float]) -> KnownRates:
    targets = np.array([0] * len(known) + [1] * len(unknown))
    scores = ValidationScores(np.array([*known, *unknown]), np.zeros_like(targets), targets, 1, "")
    found = KnownRates.of(scores)
    assert found is not None
    return found


@given(SCORES, SCORES, st.integers(1, 100))
def test_a_rate_keeps_and_finds_what_the_calibration_to_it_does(
    known: list[float], unknown: list[float], percentage: int
) -> None:
    rates, bias = rates_of(known, unknown), calibrate(np.array(known), percentage / 100).bias
    assert rates.kept_at(percentage / 100) == pytest.approx(np.mean([score <= -bias for score in known]))
    assert rates.found_at(percentage / 100) == pytest.approx(np.mean([score > -bias for score in unknown]))


@given(SCORES, SCORES, SHARES, COSTS)
def test_no_threshold_costs_less_than_the_cheapest_rate(
    known: list[float], unknown: list[float], share: float, cost: float
) -> None:
    def expected(threshold: float) -> float:
        lost = sum(score > threshold for score in known) / len(known)
        missed = sum(score <= threshold for score in unknown) / len(unknown)
        return (1 - share) * lost + share * cost * missed

    everywhere = [expected(threshold) for threshold in (-np.inf, *known, *unknown, np.inf)]
    try:
        kept = rates_of(known, unknown).cheapest(share, cost)
    except CalibrationError:
        assert expected(-np.inf) == pytest.approx(min(everywhere))
        return
    threshold = -calibrate(np.array(known), kept).bias
    assert expected(threshold) == pytest.approx(min(everywhere))
    cheap = [score for score in known if expected(score) <= min(everywhere) + 1e-12]
    assert threshold == max(cheap), "of equal ones the one that keeps most"


def test_of_thresholds_that_cost_the_same_but_for_rounding_the_largest_share_is_kept() -> None:
    known = [float(number) for number in range(1, 11)]
    rates = rates_of(known, [score + 0.5 for score in known])  # a known image more costs an unknown one
    assert rates.cheapest(0.5) == 1.0
    assert rates.cheapest(0.1, 9.0) == 1.0


def test_the_table_says_what_is_kept_and_then_what_is_found() -> None:
    rates = rates_of([float(number) for number in range(20)], [5.0, 30.0])
    assert "| 95 | 95.0 | 50.0 |" in rates.lines()


def test_a_rate_is_reached_in_spite_of_its_rounding() -> None:
    rates = rates_of([float(number) for number in range(10)], [20.0])
    assert rates.kept_at(0.1 + 0.2) == 0.3


@given(SCORES, SCORES, SHARES, COSTS)
def test_more_unknown_images_and_dearer_ones_never_raise_the_rate(
    known: list[float], unknown: list[float], share: float, cost: float
) -> None:
    rates = rates_of(known, unknown)

    def cheapest(share: float, cost: float) -> float:
        try:
            return rates.cheapest(share, cost)
        except CalibrationError:  # all unknown
            return 0.0

    found = [cheapest(share, cost), cheapest(share / 2, cost), cheapest(share / 2, cost / 2)]
    assert found == sorted(found)


def test_where_nothing_is_told_apart_it_is_cheapest_to_call_everything_unknown_or_nothing() -> None:
    rates = rates_of([1.0, 2.0], [0.0, 0.0])
    assert rates.cheapest(0.1) == 1.0
    with pytest.raises(CalibrationError, match="with 90 % unknown images and a cost of 10 it is cheapest"):
        rates.cheapest(0.9, 10.0)
    assert "| 50 | 100.0 | 0.0 |" in rates.lines()


def test_without_an_unknown_image_there_is_nothing_to_say() -> None:
    scores = ValidationScores(np.zeros(3), np.zeros(3, int), np.array([0, 1, 1]), 2, "")
    assert KnownRates.of(scores) is None
    assert KnownRates.of(replace(scores, targets=np.array([0, 1, 2]))) is not None
