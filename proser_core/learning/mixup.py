"""Data placeholders: mixtures of images of different classes (eq. 6, supplement alg. 1)."""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from proser_core.rng import keyed_generator


class MixDraw(NamedTuple):
    """One step's randomness for the H mixed images of the global batch, the same on every rank.

    `partners` int64[H] is a permutation of them; `mix_lambda` float32[] is one ratio per batch.
    """

    partners: Tensor
    mix_lambda: Tensor


def draw_mix(seed: int, epoch: int, step: int, count: int, alpha: float) -> MixDraw:
    """Permutation of `count` images and lambda ~ Beta(alpha, alpha), keyed by (seed, epoch, step)."""
    generator = keyed_generator(seed, "mixup", epoch, step)
    partners = torch.from_numpy(generator.permutation(count))
    mix_lambda = torch.tensor(generator.beta(alpha, alpha), dtype=torch.float32)
    return MixDraw(partners, mix_lambda)


def mix(values: Tensor, draw: MixDraw, rank: int = 0, world_size: int = 1) -> Tensor:
    """`lam * x_i + (1 - lam) * x_j` for this rank's share of the mixed images, partners from any rank.

    values [h, ...] are this rank's images or hidden representations, h = H / world_size.
    """
    everyone = _GatherRanks.apply(values, rank, world_size) if world_size > 1 else values
    mine = draw.partners[rank * len(values) : (rank + 1) * len(values)]
    return torch.lerp(everyone[mine], values, draw.mix_lambda.to(values.dtype))


class _GatherRanks(torch.autograd.Function):
    """[h, ...] of each rank to [h * ranks, ...] on all; the gradient flows back to its rank."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, rank: int, world_size: int) -> Tensor:
        ctx.rank, ctx.length = rank, len(values)
        values = values.contiguous()
        parts = [torch.empty_like(values) for _ in range(world_size)]
        dist.all_gather(parts, values)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        total = gradients[0].contiguous()
        dist.all_reduce(total)
        return total[ctx.rank * ctx.length : (ctx.rank + 1) * ctx.length], None, None


def pair_weights(targets: Tensor, partners: Tensor) -> Tensor:
    """float32[H]: 1 where the pair has two classes, 0 where both images have the same.

    A pair of one class keeps its place in the batch, so that shapes are static.
    """
    return (targets != targets[partners]).float()
