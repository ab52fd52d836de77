"""Counterfactual images (Neal et al. 2018): near an image of a known class, and of none for a classifier."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from proser_core.generative.convolutions import sphere

STEP = 0.1  # authors' code
NUM_STEPS = 100  # authors' code
Function = Callable[[Tensor], Tensor]


def with_zero(logits: Tensor) -> Tensor:
    """[B, K] to [B, K+1]: the logit of unknown is 0."""
    return F.pad(logits, (0, 1))


def unknown_losses(logits: Tensor) -> Tensor:
    """`log(1 + sum_k exp l_k) = -log p(K+1)`, [B]."""
    return with_zero(logits).logsumexp(dim=1)


def are_open(logits: Tensor) -> Tensor:
    """bool[B]: whether unknown is likelier than every class, `p(K+1) > max_k p_k`."""
    return logits.amax(dim=1) < 0


def search(
    decode: Function,
    classify: Function,
    starts: Tensor,
    *,
    distance_weight: float,
    step: float = STEP,
    num_steps: int = NUM_STEPS,
    project: Function = sphere,
) -> Tensor:
    """Codes [B, L, s, s] that end `num_steps` steps down from `starts` along
    `distance_weight * |z - start|^2 - log p(K+1 | decode(z))`, put back on the sphere after each.

    `decode` and `classify` must be in evaluation mode: no image's search then depends on the others.
    """
    codes = starts.detach()
    for _ in range(num_steps):
        codes = codes.detach().requires_grad_()
        distance = (codes - starts).square().sum()
        cost = distance_weight * distance + unknown_losses(classify(decode(codes))).sum()
        (slope,) = torch.autograd.grad(cost, codes)
        codes = project(codes - step * slope)
    return codes.detach()
