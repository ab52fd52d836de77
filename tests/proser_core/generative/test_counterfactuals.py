"""The search for counterfactual images, on problems whose answer is known."""

import math

import pytest
import torch
from torch import nn

from proser_core.generative.convolutions import Classifier32, Decoder32, sphere
from proser_core.generative.counterfactuals import are_open, search, unknown_losses, with_zero

ROWS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
BOUNDARY = torch.eye(4)[:2]  # a linear classifier: logits are the first two coordinates, open where both are negative


def same(values):
    return values


def linear(values):
    return values.flatten(1) @ BOUNDARY.T


def search_plane(starts, distance_weight, **more):
    codes = starts.view(-1, 4, 1, 1)
    ends = search(same, linear, codes, distance_weight=distance_weight, project=same, **more)
    return ends.flatten(1)


def test_the_loss_of_unknown_is_minus_the_log_of_its_probability():
    logits = ROWS.double()
    for row, loss in zip(logits, unknown_losses(logits), strict=True):
        exponentials = [math.exp(value) for value in row]
        assert float(loss) == pytest.approx(-math.log(1 / (1 + sum(exponentials))))


def test_an_image_is_open_where_unknown_is_likelier_than_every_class():
    probabilities = with_zero(ROWS).softmax(dim=1)
    assert are_open(ROWS).tolist() == (probabilities[:, -1] > probabilities[:, :-1].amax(dim=1)).tolist()
    assert are_open(torch.tensor([[-1.0, -0.1], [-1.0, 0.1]])).tolist() == [True, False]


def test_a_search_crosses_a_known_boundary():
    starts = torch.tensor([[2.0, -1.0, 0.3, 0.0], [0.5, 1.0, 0.0, 0.2]])
    ends = search_plane(starts, distance_weight=0.0)
    assert not are_open(linear(starts)).any()
    assert are_open(linear(ends)).all()
    torch.testing.assert_close(ends[:, 2:], starts[:, 2:])


def test_one_step_is_that_of_the_gradient_by_hand():
    start, step, weight = [2.0, -1.0, 0.0, 0.0], 0.1, 0.5
    once = search_plane(torch.tensor([start]), weight, step=step, num_steps=1)[0]
    twice = search_plane(torch.tensor([start]), weight, step=step, num_steps=2)[0]

    def slope(point):
        total = 1 + math.exp(point[0]) + math.exp(point[1])
        of_unknown = [math.exp(point[0]) / total, math.exp(point[1]) / total, 0, 0]
        return [2 * weight * (here - there) + more for here, there, more in zip(point, start, of_unknown, strict=True)]

    by_hand = [here - step * down for here, down in zip(start, slope(start), strict=True)]
    assert once.tolist() == pytest.approx(by_hand)
    again = [here - step * down for here, down in zip(by_hand, slope(by_hand), strict=True)]
    assert twice.tolist() == pytest.approx(again)


def test_a_larger_distance_weight_keeps_the_ends_nearer():
    starts = ROWS.abs()
    moved = [float((search_plane(starts, weight) - starts).norm()) for weight in (0.0, 0.1, 1.0, 3.0)]
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > 2 * moved[-1]


@pytest.fixture(scope="module")
def networks():
    torch.manual_seed(0)
    decoder, classifier = Decoder32(4, widths=(16, 8, 4)), Classifier32(3, 16, width=8, dropout=0.2)
    return decoder.eval().requires_grad_(False), classifier.eval().requires_grad_(False)


def test_the_search_of_an_image_is_the_same_alone_and_among_others(networks: tuple[nn.Module, nn.Module]):
    starts = sphere(torch.randn(5, 4, 2, 2))
    together = search(*networks, starts, distance_weight=0.1, num_steps=20)
    alone = torch.cat([search(*networks, start[None], distance_weight=0.1, num_steps=20) for start in starts])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-5)
    assert not torch.equal(together, starts)


def test_a_search_stays_on_the_sphere_and_leaves_the_start_and_the_networks_alone(networks):
    starts = sphere(torch.randn(2, 4, 2, 2))
    before, weights = starts.clone(), [value.clone() for net in networks for value in net.state_dict().values()]
    ends = search(*networks, starts, distance_weight=1.0, num_steps=3)
    torch.testing.assert_close(sphere(ends), ends)
    assert torch.equal(starts, before)
    assert not ends.requires_grad
    after = [value for net in networks for value in net.state_dict().values()]
    assert all(torch.equal(old, new) for old, new in zip(weights, after, strict=True))
