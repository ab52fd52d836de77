import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from proser_core.errors import CalibrationError
from proser_core.recognition.calibration import calibrate

SCORES = st.lists(st.sampled_from([-3.0, -1.0, 0.0, 0.25, 1.0, 2.5]) | st.floats(-50, 50), min_size=1, max_size=70)
PERCENTAGES = st.integers(1, 100)


def textbook_bias(scores: list[float], percentage: int) -> float:
    """Try minus every score as the bias and keep the largest that leaves enough images known."""
    biases = [-score for score in scores]
    return max(bias for bias in biases if 100 * sum(score + bias <= 0 for score in scores) >= percentage * len(scores))


@given(SCORES, PERCENTAGES)
def test_bias_is_the_largest_candidate_that_keeps_enough_images_known(scores, percentage):
    calibration = calibrate(np.array(scores), percentage / 100)
    assert calibration == calibrate(scores, percentage / 100)
    assert calibration.bias == textbook_bias(scores, percentage)
    assert calibration.known_rate == np.mean(np.array(scores) + calibration.bias <= 0)
    assert calibration.num_images == len(scores)


def test_no_percentage_keeps_an_image_too_many_by_rounding():
    for percentage in range(1, 101):
        for count in range(1, 101):
            scores = np.arange(count, dtype=float)
            kept = 1 - int(calibrate(scores, percentage / 100).bias)
            assert kept == -(-percentage * count // 100)


def test_images_tied_at_the_bias_all_stay_known():
    calibration = calibrate(np.array([0.0] * 10 + [-1.0] * 10), 0.95)
    assert str(calibration.bias) == "0.0"
    assert calibration.known_rate == 1.0


def test_no_image_is_refused():
    with pytest.raises(CalibrationError, match=r"no validation image.*give known validation images"):
        calibrate(np.array([]))


@pytest.mark.parametrize("rate", [95, 0, -1, np.nan])
def test_a_rate_that_is_no_share_is_refused(rate):
    with pytest.raises(CalibrationError, match=r"target_rate is .*; need a share above 0 and at most 1"):
        calibrate(np.zeros(3), rate)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_not_finite_is_refused(bad):
    with pytest.raises(CalibrationError, match=r"2 of 4 validation scores"):
        calibrate(np.array([0.0, bad, 1.0, bad]))


@pytest.mark.parametrize(("count", "kept"), [(1, 1), (20, 19), (20, 20), (137, 131), (5000, 4750)])
def test_the_interval_leaves_two_and_a_half_percent_on_either_side(count, kept):
    # The known rate on new images is at most r where at least `kept` of `count` uniform draws are at most r.
    low, high = calibrate(np.random.default_rng(0).random(count), kept / count).interval
    assert binom.sf(kept - 1, count, low) == pytest.approx(0.025, rel=1e-6)
    assert binom.sf(kept - 1, count, high) == pytest.approx(0.975, rel=1e-6)


@pytest.mark.parametrize("count", [20, 137])
def test_the_interval_holds_the_known_rate_of_new_images_in_ninety_five_percent_of_the_cases(count):
    generator = np.random.default_rng(count)
    cases = 1500
    inside = 0
    for _ in range(cases):
        calibration = calibrate(generator.standard_normal(count), 0.9)
        low, high = calibration.interval
        inside += low <= norm.cdf(-calibration.bias) <= high
    assert 0.93 < inside / cases < 0.97


@given(st.integers(2, 40), st.integers(0, 40), st.integers(0, 40), PERCENTAGES)
def test_the_interval_holds_the_rate_of_the_validation_images_where_scores_tie(tied, below, above, percentage):
    scores = np.repeat([-1.0, 0.0, 1.0], [below, tied, above])
    calibration = calibrate(scores, percentage / 100)
    low, high = calibration.interval
    ties = np.count_nonzero(scores == -calibration.bias)
    assert 0 < low < calibration.known_rate
    assert high >= calibration.known_rate or ties == 1
    assert high == 1.0 or calibration.known_rate < 1.0 or ties == 1


@pytest.mark.parametrize("levels", [1, 2, 4])
@pytest.mark.parametrize("target_rate", [0.5, 0.9])
def test_of_tied_scores_the_interval_leaves_at_most_two_and_a_half_percent_on_either_side(levels, target_rate):
    generator = np.random.default_rng(0)
    cases = 1000
    too_low = too_high = 0
    for _ in range(cases):
        scores = np.round(generator.standard_normal(60) * levels) / levels
        calibration = calibrate(scores, target_rate)
        low, high = calibration.interval
        rate = norm.cdf(-calibration.bias + 0.5 / levels)  # of all that rounds to the threshold or below
        too_low, too_high = too_low + (rate < low), too_high + (rate > high)
    assert max(too_low, too_high) / cases < 0.03
