"""The 9-convolution network of Neal et al. (2018), the backbone that the paper says it uses."""

from collections import OrderedDict

import torch
from torch import Tensor, nn

from proser_core.config import NetworkConfig, SplitPoint
from proser_core.networks.backbone import Backbone, average_pool, refuse_fields

WIDTH = 128  # channels from the third convolution on
SPLITS: dict[SplitPoint, str] = {"early": "stage1", "middle": "stage2", "late": "stage3.block8"}
"""After the third, sixth and eighth block. After the ninth only an average is left, which is linear:
it would mix embeddings."""


class ConvBlock(nn.Sequential):
    """3x3 convolution without bias, BatchNorm, LeakyReLU(0.2)."""

    def __init__(self, channels_in: int, channels_out: int, stride: int = 1) -> None:
        convolution = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        norm = nn.BatchNorm2d(channels_out)
        nn.init.normal_(convolution.weight, 0.0, 0.05)
        nn.init.normal_(norm.weight, 1.0, 0.02)
        super().__init__(OrderedDict(conv=convolution, norm=norm, activation=nn.LeakyReLU(0.2, inplace=True)))


class Flat(nn.Module):
    """[B, C, H, W] to [B, C*H*W] in the channel-first order, whatever the memory format."""

    def forward(self, features: Tensor) -> Tensor:
        return torch.flatten(features.contiguous(), 1)


def classifier32(config: NetworkConfig, image_size: int) -> Backbone:
    """Average-pooled to a 128-d embedding, as ARPL and MLS use it."""
    return _classifier32(config, average_pool(), embedding_size=WIDTH)


def classifier32_flat(config: NetworkConfig, image_size: int) -> Backbone:
    """Flattened, as in Neal et al.: 2048-d at 32 pixels."""
    side = -(-image_size // 8)  # three convolutions of stride 2 and padding 1
    return _classifier32(config, Flat(), embedding_size=WIDTH * side * side)


def classifier32_2d(config: NetworkConfig, image_size: int) -> Backbone:
    """Average-pooled, then a linear layer to 2 dimensions, to be drawn (sec. Visualization of Decision Boundaries)."""
    head = nn.Sequential(OrderedDict(pool=average_pool(), plane=nn.Linear(WIDTH, 2)))
    return _classifier32(config, head, embedding_size=2)


def _classifier32(config: NetworkConfig, head: nn.Module, embedding_size: int) -> Backbone:
    refuse_fields(config, "weights_file", "weights")

    def stage(first: int, channels_in: int, channels: int) -> nn.Module:
        stage = nn.Sequential()
        if config.dropout:
            stage.add_module("dropout", nn.Dropout2d(config.dropout))
        stage.add_module(f"block{first}", ConvBlock(channels_in, channels))
        stage.add_module(f"block{first + 1}", ConvBlock(channels, channels))
        stage.add_module(f"block{first + 2}", ConvBlock(channels, WIDTH, stride=2))
        return stage

    stages = {"stage1": stage(1, 3, 64), "stage2": stage(4, WIDTH, WIDTH), "stage3": stage(7, WIDTH, WIDTH)}
    return Backbone({**stages, "head": head}, embedding_size, SPLITS, config.split)
