"""W and dummies on the embeddings of a frozen backbone, and their way back onto it."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn

from proser_core.config import SplitPoint
from proser_core.networks.backbone import Backbone
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet
from proser_core.networks.weights import fill, read_weights
from proser_core.rng import keyed_seed

SMALLEST = 0.1
"""Least standard deviation of a feature, as a share of their mean: one that hardly moves on known images would
otherwise decide on others."""
PLACE = "embedding"
"""The only stage of a backbone of heads."""
MEAN, STD = (f"backbone.stages.{PLACE}.{name}" for name in ("mean", "std"))


class Standardised(nn.Module):
    """Embeddings [B, d] with zero mean and unit variance in each feature: the same learning rate suits any backbone."""

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Tensor, std: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, embeddings: Tensor) -> Tensor:
        return (embeddings - self.mean) / self.std


def make_heads(embeddings: np.ndarray, num_known: int, seed: int) -> ClosedSetNet:
    """Fresh W on training embeddings float32[N, d], which this net takes in the place of images; mixtures are mixtures
    of embeddings."""
    mean, std = torch.from_numpy(embeddings.mean(0)), torch.from_numpy(embeddings.std(0))
    std = std.clamp(min=max(SMALLEST * float(std.mean()), 1e-6))
    places: dict[SplitPoint, str] = dict.fromkeys(get_args(SplitPoint), PLACE)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keyed_seed(seed, "closed-set weights"))
        return ClosedSetNet(Backbone({PLACE: Standardised(mean, std)}, len(mean), places), num_known)


def load_heads(net: ClosedSetNet | PlaceholderNet, path: Path) -> None:
    """Put heads from a file onto the backbone that gave their embeddings, which stays as it is. Raises CheckpointError
    for a file that does not fit."""
    kept = {name: value for name, value in net.state_dict().items() if name.startswith("backbone.")}
    heads = read_weights(path)
    fill(net, kept | _on_raw_embeddings(heads), path, "Give the heads of a frozen backbone")
    net.backbone.standardised_by = _standardisation(heads)


def on_backbone(heads: ClosedSetNet | PlaceholderNet, closed_set: ClosedSetNet) -> ClosedSetNet | PlaceholderNet:
    """`closed_set`, whose backbone gave the embeddings that `heads` were trained on, with these heads."""
    net = PlaceholderNet(closed_set, heads.dummies.out_features) if isinstance(heads, PlaceholderNet) else closed_set
    net.load_state_dict(net.state_dict() | _on_raw_embeddings(heads.state_dict()))
    net.backbone.standardised_by = _standardisation(heads.state_dict())
    return net


def as_on_backbone(heads: ClosedSetNet | PlaceholderNet) -> ClosedSetNet | PlaceholderNet:
    """Heads for the same embeddings, with the arithmetic that they have in `on_backbone`: other rounding could make
    the image on the border unknown, which the bias keeps known."""
    state, net = heads.state_dict(), copy.deepcopy(heads)
    plain = {MEAN: torch.zeros_like(state[MEAN]), STD: torch.ones_like(state[STD])}
    net.load_state_dict(plain | _on_raw_embeddings(state))
    net.backbone.standardised_by = _standardisation(state)
    return net


def _on_raw_embeddings(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`W (e - mean) / std + b` as `W' e + b'`, for each head."""
    found = _standardisation(state)
    heads = {name: value for name, value in state.items() if name not in (MEAN, STD)}
    if found is None:
        return heads
    mean, std = found
    for name in ("classifier", "dummies"):
        if f"{name}.weight" in heads:
            weight = heads[f"{name}.weight"] / std
            heads |= {f"{name}.weight": weight, f"{name}.bias": heads[f"{name}.bias"] - weight @ mean}
    return heads


def _standardisation(state: Mapping[str, Tensor]) -> tuple[Tensor, Tensor] | None:
    """Mean and standard deviation of what heads were trained on; None where these are embeddings as they are."""
    return (state[MEAN], state[STD]) if MEAN in state and STD in state else None
