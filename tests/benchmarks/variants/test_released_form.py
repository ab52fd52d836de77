"""The released form that the benchmarks time computes the same losses as ours where the two should agree."""

import itertools
from collections.abc import Sequence

import pytest
import torch
from small_tasks import CPU, SIZE, finetune_config, tiny_net

from benchmarks.variants.released_form import ReleasedStep, released_terms
from proser_core.learning.fit import Arithmetic
from proser_core.learning.mixup import MixDraw
from proser_core.learning.objectives import ProserObjective

HALF = 4
TARGETS = torch.tensor([0, 1, 2, 1, 0, 1, 0, 1])  # clean half, mixed half
PARTNERS = [1, 0, 3, 2]  # no pair of one class


def images() -> torch.Tensor:
    return torch.randn(2 * HALF, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


def both_forms(num_dummies: int, partners: Sequence[int] = PARTNERS, **choices):
    """Ours puts the clean half first, the released form the mixed one. BatchNorm is in evaluation mode."""
    net, batch, draw = tiny_net(3, num_dummies).eval(), images(), MixDraw(torch.tensor(partners), torch.tensor(0.3))
    config = finetune_config(num_dummies=num_dummies, gamma=0.7, beta=1.0, **choices)
    ours = ProserObjective(net, config, seed=0).eval()(batch, TARGETS, TARGETS, draw)
    swapped = torch.arange(2 * HALF).roll(HALF)
    released = released_terms(net, batch[swapped], TARGETS[swapped], 0.3, draw.partners)
    return net, ours, released


def mean_terms(terms) -> list[float]:
    sums = (terms.sums[f"loss/{name}"] for name in ("closed_set", "placeholder", "mixture"))
    return [(total / count).item() for total, count in sums]


@pytest.mark.parametrize(
    ("num_dummies", "partners", "choices"),
    [
        (1, PARTNERS, {}),
        *itertools.product((1, 4), ([1, 0, 3, 2], [2, 3, 0, 1], [0, 1, 2, 3]), [{"loss_form": "released"}]),
    ],
    ids=str,
)
def test_losses_and_gradients_are_equal_with_one_dummy_and_no_pair_of_one_class_or_in_the_released_form(
    num_dummies, partners, choices
):
    net, ours, released = both_forms(num_dummies, partners, **choices)
    terms = released.closed_set, released.placeholder, released.mixture
    assert mean_terms(ours) == pytest.approx([term.item() for term in terms], rel=1e-5)
    ours.total.backward()
    mine = [parameter.grad.clone() for parameter in net.parameters()]
    net.zero_grad()
    (released.closed_set + released.placeholder + 0.7 * released.mixture).backward()
    torch.testing.assert_close(mine, [parameter.grad for parameter in net.parameters()], rtol=1e-4, atol=1e-6)


def test_with_more_dummies_only_the_placeholder_term_is_equal():
    _, ours, released = both_forms(num_dummies=3)
    closed_set, placeholder, mixture = mean_terms(ours)
    assert placeholder == pytest.approx(released.placeholder.item(), rel=1e-5)
    assert closed_set < released.closed_set.item()
    assert mixture != pytest.approx(released.mixture.item(), rel=1e-3)


def test_the_released_step_trains_and_keeps_its_statistics():
    net = tiny_net(3, 1)
    before = [parameter.clone() for parameter in net.parameters()]
    step = ReleasedStep(net, Arithmetic(CPU, bf16=False), lr=0.1)
    step(images(), TARGETS)
    assert all(not torch.equal(old, new) for old, new in zip(before, net.parameters(), strict=True))
    assert step.progress.total == 2 * HALF
    assert step.progress.loss > 0
    assert "L1" in step.progress.line
