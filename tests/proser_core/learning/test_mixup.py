import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from proser_core.learning.mixup import MixDraw, draw_mix, mix, pair_weights


@given(st.integers(1, 7), st.integers(0, 2**32), st.floats(0, 1))
def test_mix_is_the_weighted_sum_with_the_partner(half, seed, mix_lambda):
    generator = np.random.default_rng(seed)
    values = generator.standard_normal((half, 2, 3))
    partners = generator.permutation(half)
    mixed = mix(
        torch.from_numpy(values), MixDraw(torch.from_numpy(partners), torch.tensor(mix_lambda, dtype=torch.float64))
    )
    for i, j in enumerate(partners):
        np.testing.assert_allclose(mixed[i], mix_lambda * values[i] + (1 - mix_lambda) * values[j], atol=1e-12)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8), st.integers(0, 2**32))
def test_pair_weights_are_one_exactly_where_the_classes_differ(targets, seed):
    partners = np.random.default_rng(seed).permutation(len(targets))
    expected = [float(targets[i] != targets[j]) for i, j in enumerate(partners)]
    assert pair_weights(torch.tensor(targets), torch.from_numpy(partners)).tolist() == expected


@given(st.integers(0, 2**40), st.integers(0, 300), st.integers(0, 300), st.integers(1, 64))
def test_partners_are_a_permutation_and_the_ratio_lies_between_zero_and_one(seed, epoch, step, half):
    draw = draw_mix(seed, epoch, step, half, 2.0)
    assert sorted(draw.partners.tolist()) == list(range(half))
    assert draw.mix_lambda.shape == ()
    assert 0 <= draw.mix_lambda <= 1


def test_equal_keys_draw_equal_mixtures_and_other_keys_others():
    first, again = draw_mix(3, 1, 2, 32, 2.0), draw_mix(3, 1, 2, 32, 2.0)
    assert torch.equal(first.partners, again.partners)
    assert first.mix_lambda == again.mix_lambda
    for key in ((4, 1, 2), (3, 2, 2), (3, 1, 3), (3, 2, 1)):
        other = draw_mix(*key, 32, 2.0)
        assert not torch.equal(first.partners, other.partners)
        assert first.mix_lambda != other.mix_lambda


def test_ratios_have_the_mean_and_spread_of_the_beta_distribution():
    for alpha in (0.4, 2.0):
        ratios = np.array([float(draw_mix(0, 0, step, 1, alpha).mix_lambda) for step in range(3000)])
        assert abs(ratios.mean() - 0.5) < 0.02
        assert abs(ratios.var() - 1 / (4 * (2 * alpha + 1))) < 0.01
