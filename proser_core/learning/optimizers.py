"""What updates the weights: SGD with momentum, or Muon for the convolutions and SGD for all else."""

import math
from collections.abc import Callable, Iterable
from itertools import groupby

import torch
from torch import Tensor, nn
from torch.optim.sgd import sgd

from proser_core.config import OptimizerConfig
from proser_core.learning.step import Arithmetic

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration. Source: Jordan 2024 (Muon)."""
ITERATIONS = 5
"""Newton-Schulz iterations. Source: Jordan 2024 (Muon)."""
SMALLEST_NORM = 1e-7
"""What a norm is taken for that is smaller, so that nothing is divided by 0. Source: `torch.optim.Muon`."""
OTHERS_RATE = 5.0
"""Learning rate of what is no convolution, as a multiple of the convolutions'. Source: method notes."""


def make_optimizer(
    parameters: Iterable[nn.Parameter], config: OptimizerConfig, arithmetic: Arithmetic
) -> torch.optim.Optimizer:
    """The optimizer that a configuration names; its learning rate is a tensor, which a CUDA graph can change."""
    if config.optimizer == "muon":
        return Muon(parameters, config, arithmetic)
    return torch.optim.SGD(
        parameters,
        lr=torch.tensor(config.lr, device=arithmetic.device),
        momentum=config.momentum,
        weight_decay=config.weight_decay,
        nesterov=config.nesterov,
        fused=True,
    )


class Muon(torch.optim.Optimizer):
    """Muon (Jordan 2024) for convolutions, SGD with momentum for all other parameters.

    A convolution's weight, float[out, in, height, width], is first brought to Frobenius norm sqrt(out), as in
    Jordan's airbench: what follows must not depend on its scale, as with BatchNorm. It then moves by `lr` along
    its momentum, read as a matrix [out, in * height * width] whose singular values have been brought near 1. It
    has no weight decay, since its norm is given. `torch.optim.Muon` takes matrices alone, one by one; here all of
    one shape go through the same products, and high ones move no further than wide ones, as in airbench.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], config: OptimizerConfig, arithmetic: Arithmetic) -> None:
        lr = torch.tensor(config.lr, device=arithmetic.device)
        super().__init__(parameters, {"lr": lr})
        self._config = config
        self._dtype = torch.bfloat16 if arithmetic.bf16 else torch.float32
        for weight in self.param_groups[0]["params"]:
            self.state[weight]["momentum_buffer"] = torch.zeros_like(weight)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient. Raises ValueError for a closure: losses are computed once."""
        if closure is not None:
            raise ValueError("this optimizer takes no closure; compute the gradients before the step")
        (group,) = self.param_groups
        moved = [weight for weight in group["params"] if weight.grad is not None]
        if convolutions := [weight for weight in moved if weight.ndim == 4]:
            self._orthogonal_step(convolutions, group["lr"])
        self._plain_step([weight for weight in moved if weight.ndim != 4], group["lr"] * OTHERS_RATE)

    def _orthogonal_step(self, weights: list[Tensor], lr: Tensor) -> None:
        momentum = self._config.momentum
        weights = sorted(weights, key=_matrix_shape)
        gradients, buffers = self._gradients(weights), self._buffers(weights)
        torch._foreach_lerp_(buffers, gradients, 1.0 - momentum)
        directions = torch._foreach_lerp(gradients, buffers, momentum) if self._config.nesterov else buffers
        updates: list[Tensor] = []
        for _, alike in groupby(directions, key=_matrix_shape):
            matrices = torch.stack([direction.flatten(1) for direction in alike])
            updates += orthogonalised(matrices.to(self._dtype)).float().unbind()
        torch._foreach_mul_(updates, lr)
        norms = list(torch._foreach_norm(weights))
        torch._foreach_clamp_min_(norms, SMALLEST_NORM)
        torch._foreach_div_(norms, [math.sqrt(len(weight)) for weight in weights])
        torch._foreach_div_(weights, norms)
        torch._foreach_sub_(weights, [update.view_as(weight) for update, weight in zip(updates, weights, strict=True)])

    def _plain_step(self, weights: list[Tensor], lr: Tensor) -> None:
        sgd(
            weights,
            self._gradients(weights),
            [*self._buffers(weights)],  # a new list, whose type may hold None as well
            weight_decay=self._config.weight_decay,
            momentum=self._config.momentum,
            lr=lr,
            dampening=0.0,
            nesterov=self._config.nesterov,
            maximize=False,
            fused=True,
        )

    def _gradients(self, weights: list[Tensor]) -> list[Tensor]:
        return [weight.grad for weight in weights if weight.grad is not None]

    def _buffers(self, weights: list[Tensor]) -> list[Tensor]:
        return [self.state[weight]["momentum_buffer"] for weight in weights]


def orthogonalised(matrices: Tensor) -> Tensor:
    """U S V^T -> U S' V^T with every value of S' near 1, by Newton-Schulz iterations (Jordan 2024).

    float[matrices, rows, columns] to the same. S' lies between 0.68 and 1.21 where S is above 0.0016 of the matrix's
    Frobenius norm, and below 1.21 where S is smaller; bf16 rounds besides.
    """
    a, b, c = NEWTON_SCHULZ
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=SMALLEST_NORM)
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if tall else x


def _matrix_shape(weight: Tensor) -> tuple[int, int]:
    """Rows and columns of a convolution's weight, float[out, in, height, width], read as a matrix."""
    return len(weight), weight[0].numel()
