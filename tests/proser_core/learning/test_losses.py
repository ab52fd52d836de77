"""The losses against slow twins that follow the paper's equations word by word."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from textbook import softmax

from proser_core.learning.losses import (
    all_logits,
    augmented_logits,
    closed_set_losses,
    placeholder_losses,
    unknown_losses,
)
from proser_core.networks.nets import ClassLogits


def textbook_augmented(known: np.ndarray, dummies: np.ndarray) -> list[list[float]]:
    return [[*map(float, row), max(map(float, dummy))] for row, dummy in zip(known, dummies, strict=True)]


def textbook_closed_set(row: list[float], target: int) -> float:
    return -math.log(softmax(row)[target])


def textbook_placeholder(row: list[float], target: int) -> float:
    """The true class leaves the list, and what is left is classified as the last entry."""
    return -math.log(softmax([value for index, value in enumerate(row) if index != target])[-1])


@st.composite
def logits_and_targets(draw: st.DrawFn) -> tuple[ClassLogits, torch.Tensor]:
    batch, num_known, num_dummies = draw(st.integers(1, 6)), draw(st.integers(2, 7)), draw(st.integers(1, 5))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([0.1, 1.0, 10.0]))
    known = torch.from_numpy(scale * generator.standard_normal((batch, num_known))).float()
    dummies = torch.from_numpy(scale * generator.standard_normal((batch, num_dummies))).float()
    one_class = draw(st.booleans())
    targets = np.full(batch, generator.integers(num_known)) if one_class else generator.integers(num_known, size=batch)
    return ClassLogits(known, dummies), torch.from_numpy(targets)


@given(logits_and_targets())
def test_augmented_logits_end_in_the_largest_dummy(case):
    logits, _ = case
    expected = textbook_augmented(logits.known.numpy(), logits.dummies.numpy())
    assert augmented_logits(logits).tolist() == expected


@given(logits_and_targets())
def test_each_loss_is_that_of_the_textbook(case):
    logits, targets = case
    augmented = augmented_logits(logits)
    pairs = list(zip(augmented.tolist(), targets, strict=True))
    for losses, expected in (
        (closed_set_losses(augmented, targets), [textbook_closed_set(row, target) for row, target in pairs]),
        (placeholder_losses(augmented, targets), [textbook_placeholder(row, target) for row, target in pairs]),
        (unknown_losses(augmented), [textbook_closed_set(row, len(row) - 1) for row, _ in pairs]),
    ):
        np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-5)


@given(logits_and_targets())
def test_the_released_form_keeps_every_dummy_and_makes_the_first_one_the_class_of_mixtures(case):
    logits, targets = case
    wide, num_known = all_logits(logits), logits.known.shape[1]
    rows = [[*known, *dummies] for known, dummies in zip(logits.known.tolist(), logits.dummies.tolist(), strict=True)]
    assert wide.tolist() == rows
    expected = [textbook_closed_set(row, target) for row, target in zip(rows, targets, strict=True)]
    np.testing.assert_allclose(closed_set_losses(wide, targets), expected, rtol=1e-4, atol=1e-5)
    unknown = [textbook_closed_set(row, num_known) for row in rows]
    np.testing.assert_allclose(unknown_losses(wide, num_known), unknown, rtol=1e-4, atol=1e-5)


@settings(max_examples=8)
@given(logits_and_targets())
def test_losses_agree_with_numerical_gradients(case):
    logits, targets = case
    augmented = augmented_logits(logits).double().div(10).requires_grad_()
    assert torch.autograd.gradcheck(lambda values: closed_set_losses(values, targets), augmented)
    assert torch.autograd.gradcheck(lambda values: placeholder_losses(values, targets), augmented)
    assert torch.autograd.gradcheck(unknown_losses, augmented)
    assert torch.autograd.gradcheck(lambda values: unknown_losses(values, 1), augmented)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1.0, 100.0, 3e4])
def test_low_precision_logits_give_finite_losses_and_gradients(dtype, scale):
    generator = torch.Generator().manual_seed(0)
    known = (scale * torch.rand(16, 4, generator=generator)).to(dtype).requires_grad_()
    dummies = (scale * torch.rand(16, 3, generator=generator)).to(dtype).requires_grad_()
    targets = torch.arange(16) % 4
    augmented = augmented_logits(ClassLogits(known, dummies))
    losses = closed_set_losses(augmented, targets) + placeholder_losses(augmented, targets) + unknown_losses(augmented)
    assert losses.dtype == torch.float32
    assert losses.isfinite().all()
    losses.mean().backward()
    assert known.grad.isfinite().all()
    assert dummies.grad.isfinite().all()


def test_only_the_winning_dummy_gets_a_gradient():
    dummies = torch.tensor([[0.0, 3.0, 1.0]], requires_grad=True)
    augmented = augmented_logits(ClassLogits(torch.zeros(1, 2), dummies))
    unknown_losses(augmented).sum().backward()
    assert (dummies.grad != 0).tolist() == [[False, True, False]]
