"""Peaks over threshold: fitted tails, and the threshold between two samples."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import genpareto

from proser_core.generative.gpd import Survival, best_threshold


def drawn(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_the_parameters_of_drawn_values_are_found():
    fitted = Survival.fit(genpareto.rvs(0.2, scale=3.0, size=100_000, random_state=drawn()))
    assert fitted.shape == pytest.approx(0.2, rel=0.1)
    assert fitted.scale == pytest.approx(3.0 + 0.2 * fitted.start, rel=0.1)  # as the excesses of a GPD over any start
    assert fitted.share == pytest.approx(0.1, rel=0.01)


def test_below_the_start_values_are_counted_and_above_it_the_equation_holds():
    values = drawn(1).exponential(size=500)
    fitted = Survival.fit(values)
    low, high = np.linspace(0, fitted.start, 20), fitted.start + np.linspace(0.01, 5, 20)
    counted = [sum(value > at for value in values) / 500 for at in low]
    assert fitted.above(low) == pytest.approx(counted)
    zeta, mu, start, share = fitted.shape, fitted.scale, fitted.start, fitted.share
    assert fitted.above(high) == pytest.approx([share * (1 + zeta * (t - start) / mu) ** (-1 / zeta) for t in high])


def test_the_unit_of_the_values_changes_no_probability():
    values, at = drawn(2).gamma(2.0, size=300), np.linspace(0, 8, 30)
    assert Survival.fit(values / 1000).above(at / 1000) == pytest.approx(Survival.fit(values).above(at), abs=1e-3)


@pytest.mark.parametrize("values", [[0.3], [0.5] * 50, list(range(20))], ids=["one", "alike", "few"])
def test_a_sample_without_a_tail_is_counted(values):
    at = np.array([-1.0, 0.3, 0.4, 7.0, 30.0])
    expected = [np.mean(np.array(values) > t) for t in at]
    assert Survival.fit(np.array(values)).above(at) == pytest.approx(expected)


def test_the_threshold_of_two_exponentials_is_where_their_densities_cross():
    # matched: exp(-t); unmatched: 6 - an exponential; densities exp(-t) and exp(t - 6) are equal at 3
    matched, unmatched = drawn(3).exponential(size=40_000), 6 - drawn(4).exponential(size=40_000)
    assert best_threshold(matched, unmatched) == pytest.approx(3, abs=0.15)
    # (1 - p) exp(-t) = p exp(t - 6) at t = 3 + log((1 - p) / p) / 2
    assert best_threshold(matched, unmatched, 0.2) == pytest.approx(3 + np.log(4) / 2, abs=0.25)


def test_the_threshold_keeps_every_matched_or_no_unmatched_error_where_only_one_kind_occurs():
    matched, unmatched = drawn(5).normal(1, 0.3, 500), drawn(6).normal(2, 0.5, 500)
    among = np.concatenate([matched, unmatched])
    for p_unknown in (0, 0.5, 1):
        assert among.min() <= best_threshold(matched, unmatched, p_unknown) <= among.max()
    assert best_threshold(matched, unmatched, 0) >= matched.max()
    assert best_threshold(matched, unmatched, 1) <= unmatched.min()


def test_between_samples_that_lie_apart_the_threshold_has_room_on_both_sides():
    matched, unmatched = drawn(7).uniform(0, 1, 200), drawn(8).uniform(3, 4, 200)
    assert 1 < best_threshold(matched, unmatched) < 3


SMALL = st.lists(st.integers(0, 9), min_size=1, max_size=8)


@given(matched=SMALL, unmatched=SMALL)
@example(matched=[1, 5], unmatched=[3, 7])
def test_where_several_are_best_it_is_one_of_them(matched, unmatched):
    def cost(t: float) -> float:
        return np.mean(np.array(matched) > t) + np.mean(np.array(unmatched) < t)

    found = best_threshold(np.array(matched), np.array(unmatched))
    assert cost(found) <= min(map(cost, matched + unmatched)) + 1e-12


def test_no_other_candidate_costs_less():
    matched, unmatched = drawn(9).gamma(3.0, size=200), drawn(10).gamma(9.0, size=200)
    found, of_matched, of_unmatched = (
        best_threshold(matched, unmatched),
        Survival.fit(matched),
        Survival.fit(-unmatched),
    )

    def cost(t: float) -> float:
        return 0.5 * of_matched.above(np.array([t]))[0] + 0.5 * of_unmatched.above(np.array([-t]))[0]

    assert all(cost(found) <= cost(float(t)) + 1e-12 for t in (*matched, *unmatched))
