"""The released form that the benchmarks time computes the same losses as ours where the two should agree."""

import pytest
import torch
from small_tasks import CPU, SIZE, finetune_config, tiny_net

from benchmarks.released import ReleasedStep, released_terms
from proser_core.learning.fit import Arithmetic
from proser_core.learning.mixup import MixDraw
from proser_core.learning.objectives import ProserObjective

HALF = 4
TARGETS = torch.tensor([0, 1, 2, 1, 0, 1, 0, 1])  # clean half, mixed half
PARTNERS = torch.tensor([1, 0, 3, 2])  # no pair of one class


def images() -> torch.Tensor:
    return torch.randn(2 * HALF, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


def both_forms(num_dummies: int, partners: torch.Tensor = PARTNERS, **choices):
    """Ours puts the clean half first, the released form the mixed one. BatchNorm is in evaluation mode."""
    net, batch, mix_lambda = tiny_net(3, num_dummies).eval(), images(), torch.tensor(0.3)
    config = finetune_config(num_dummies=num_dummies, gamma=0.7, beta=1.0, **choices)
    ours = ProserObjective(net, config, seed=0).eval()(batch, TARGETS, TARGETS, MixDraw(partners, mix_lambda))
    swapped = torch.arange(2 * HALF).roll(HALF)
    released = released_terms(net, batch[swapped], TARGETS[swapped], 0.3, partners)
    return net, ours, released


def test_with_one_dummy_and_no_pair_of_one_class_the_losses_are_equal():
    _, ours, released = both_forms(num_dummies=1)
    means = {name: (value[0] / value[1]).item() for name, value in ours.sums.items()}
    assert means["loss/closed_set"] == pytest.approx(released.closed_set.item(), rel=1e-5)
    assert means["loss/placeholder"] == pytest.approx(released.placeholder.item(), rel=1e-5)
    assert means["loss/mixture"] == pytest.approx(released.mixture.item(), rel=1e-5)


def test_with_one_dummy_and_no_pair_of_one_class_the_gradients_are_equal():
    net, ours, released = both_forms(num_dummies=1)
    ours.total.backward()
    mine = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    (released.closed_set + released.placeholder + 0.7 * released.mixture).backward()
    for first, second in zip(mine, (p.grad for p in net.parameters()), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-6)


def test_with_more_dummies_only_the_placeholder_term_is_equal():
    _, ours, released = both_forms(num_dummies=3)
    means = {name: (value[0] / value[1]).item() for name, value in ours.sums.items()}
    assert means["loss/placeholder"] == pytest.approx(released.placeholder.item(), rel=1e-5)
    assert means["loss/closed_set"] < released.closed_set.item()
    assert means["loss/mixture"] != pytest.approx(released.mixture.item(), rel=1e-3)


@pytest.mark.parametrize("partners", [[1, 0, 3, 2], [2, 3, 0, 1], [0, 1, 2, 3]], ids=str)  # of one class: none, all
@pytest.mark.parametrize("num_dummies", [1, 4])
def test_in_the_released_form_losses_and_gradients_are_equal_for_any_dummies_and_pairs(num_dummies, partners):
    net, ours, released = both_forms(num_dummies, torch.tensor(partners), loss_form="released")
    means = {name: (value[0] / value[1]).item() for name, value in ours.sums.items()}
    assert means["loss/closed_set"] == pytest.approx(released.closed_set.item(), rel=1e-5)
    assert means["loss/placeholder"] == pytest.approx(released.placeholder.item(), rel=1e-5)
    assert means["loss/mixture"] == pytest.approx(released.mixture.item(), rel=1e-5)
    ours.total.backward()
    mine = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    (released.closed_set + released.placeholder + 0.7 * released.mixture).backward()
    for first, second in zip(mine, (p.grad for p in net.parameters()), strict=True):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-6)


def test_the_released_step_trains_and_keeps_its_statistics():
    net = tiny_net(3, 1)
    before = [parameter.clone() for parameter in net.parameters()]
    step = ReleasedStep(net, Arithmetic(CPU, bf16=False), lr=0.1)
    step(images(), TARGETS)
    assert all(not torch.equal(old, new) for old, new in zip(before, net.parameters(), strict=True))
    assert step.progress.total == 2 * HALF
    assert step.progress.loss > 0
    assert "L1" in step.progress.line
