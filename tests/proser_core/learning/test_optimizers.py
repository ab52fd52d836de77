"""Muon beside `torch.optim.Muon`, SGD and the textbook."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_tasks import CPU, SIZE
from torch import nn

from proser_core.config import NetworkConfig, PretrainConfig
from proser_core.learning.optimizers import OTHERS_RATE, Muon, make_optimizer, orthogonalised
from proser_core.learning.step import Arithmetic
from proser_core.networks.nets import make_closed_set_net

FP32, BF16 = (Arithmetic(CPU, bf16=bf16) for bf16 in (False, True))


def quintic_of(matrix: np.ndarray) -> np.ndarray:
    """The textbook: the polynomial on each singular value, five times, by a decomposition."""
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    s = s / np.linalg.norm(s)
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u @ np.diag(s) @ vt


@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**31))
def test_newton_schulz_is_the_polynomial_on_the_singular_values(count, rows, columns, seed):
    matrices = np.random.default_rng(seed).normal(size=(count, rows, columns))
    found = orthogonalised(torch.from_numpy(matrices)).numpy()
    assert found == pytest.approx(np.stack([quintic_of(matrix) for matrix in matrices]), abs=1e-9)


def test_singular_values_come_near_one_but_for_those_far_below_the_norm():
    before = torch.logspace(-6, 0, 4001, dtype=torch.float64)
    before[-1] = 1.0
    matrices = torch.diag_embed(torch.stack([before, (1 - before**2).sqrt()], dim=1))  # of Frobenius norm 1
    after = orthogonalised(matrices)[:, 0, 0]
    assert 1.19 < after.max() <= 1.21
    assert 0.68 <= after[before > 0.0016].min() < 0.69
    assert after.min() >= 0


def test_a_gradient_of_zero_moves_nothing():
    assert not orthogonalised(torch.zeros(2, 3, 4)).any()


def module_of(seed: int) -> nn.Module:
    """Convolutions, two of them alike, one of one pixel, one higher than wide; a norm; a linear layer."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.Conv2d(8, 8, 3),
        nn.Conv2d(8, 8, 3, bias=False),
        nn.Conv2d(8, 6, 1, bias=False),
        nn.Conv2d(6, 9, 1, bias=False),
        nn.Linear(9, 4),
    ).to(memory_format=torch.channels_last)


def random_gradients(module: nn.Module, step: int) -> None:
    generator = torch.Generator().manual_seed(step)
    for weight in module.parameters():
        weight.grad = torch.randn(weight.shape, generator=generator)


@pytest.mark.parametrize("nesterov", [False, True])
def test_convolutions_move_as_torchs_muon_moves_matrices_of_a_given_norm(nesterov):
    module, lr = module_of(0), 0.03
    config = PretrainConfig(optimizer="muon", lr=lr, momentum=0.8, nesterov=nesterov)
    optimizer = make_optimizer(module.parameters(), config, BF16)
    convolutions = [weight for weight in module.parameters() if weight.ndim == 4]
    matrices = [nn.Parameter(weight.detach().flatten(1).clone()) for weight in convolutions]
    options = {"weight_decay": 0.0, "momentum": 0.8, "nesterov": nesterov}
    rates = [lr / math.sqrt(max(1.0, len(matrix) / matrix.shape[1])) for matrix in matrices]  # theirs grows with height
    twin = torch.optim.Muon(
        [{"params": [matrix], "lr": rate} for matrix, rate in zip(matrices, rates, strict=True)], **options
    )
    for step in range(4):
        random_gradients(module, step)
        for matrix, weight in zip(matrices, convolutions, strict=True):
            matrix.data *= math.sqrt(len(matrix)) / matrix.data.norm()
            matrix.grad = weight.grad.flatten(1)
        optimizer.step()
        twin.step()
    for matrix, weight in zip(matrices, convolutions, strict=True):
        torch.testing.assert_close(weight.flatten(1), matrix, rtol=0, atol=0.02 * lr)  # bf16 rounds in another order


@pytest.mark.parametrize("layers", [slice(None), slice(6, None)], ids=["beside convolutions", "alone"])
@pytest.mark.parametrize("nesterov", [False, True])
def test_all_else_moves_as_torchs_sgd_at_a_multiple_of_the_rate(nesterov, layers):
    options = {"momentum": 0.8, "weight_decay": 0.01, "nesterov": nesterov}
    module, twin = module_of(0)[layers], module_of(0)[layers]
    optimizer = make_optimizer(module.parameters(), PretrainConfig(optimizer="muon", lr=0.02, **options), FP32)
    others = torch.optim.SGD(
        [weight for weight in twin.parameters() if weight.ndim != 4], 0.02 * OTHERS_RATE, **options
    )
    for step in range(4):
        random_gradients(module, step)
        random_gradients(twin, step)
        optimizer.step()
        others.step()
    for weight, expected in zip(module.parameters(), twin.parameters(), strict=True):
        if weight.ndim == 4:
            assert not torch.equal(weight, expected)
        else:
            torch.testing.assert_close(weight, expected)


def test_what_a_network_says_does_not_change_by_the_scale_that_its_convolutions_are_given():
    net = make_closed_set_net(NetworkConfig(), 3, SIZE, seed=0).train()
    images = torch.randn(16, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    before = net(images)
    optimizer = make_optimizer(net.parameters(), PretrainConfig(optimizer="muon", lr=0.02, weight_decay=0.0), FP32)
    for weight in net.parameters():
        weight.grad = torch.zeros_like(weight)
    optimizer.step()
    for weight in net.parameters():
        if weight.ndim == 4:
            assert weight.norm().item() == pytest.approx(math.sqrt(len(weight)), rel=1e-4)
    torch.testing.assert_close(net(images), before, rtol=1e-3, atol=1e-3)


def test_a_convolution_of_zeros_stays_finite():
    module = nn.Conv2d(3, 4, 3, bias=False)
    nn.init.zeros_(module.weight)
    random_gradients(module, 0)
    make_optimizer(module.parameters(), PretrainConfig(optimizer="muon", lr=0.02), FP32).step()
    assert module.weight.isfinite().all()
    assert module.weight.any()


def test_a_parameter_without_a_gradient_stays_as_it_is():
    module = module_of(0)
    before = [weight.detach().clone() for weight in module.parameters()]
    optimizer = Muon(module.parameters(), PretrainConfig(optimizer="muon", lr=0.02), FP32)
    random_gradients(module, 0)
    module[0].weight.grad = module[6].bias.grad = None
    optimizer.step()
    moved = [not torch.equal(*pair) for pair in zip(before, module.parameters(), strict=True)]
    assert moved == [weight.grad is not None for weight in module.parameters()]
