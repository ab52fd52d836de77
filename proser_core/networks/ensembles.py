"""An ensemble of networks with placeholders as one network. Apart from the nets, so that the keys of trainings do not
hold this code."""

from collections.abc import Sequence
from typing import get_args

import torch
from torch import Tensor, nn

from proser_core.config import SplitPoint
from proser_core.networks.backbone import Backbone
from proser_core.networks.nets import PlaceholderNet

MEMBERS = "members"
"""The only stage of an ensemble's backbone."""


class EnsembleNet(PlaceholderNet):
    """The mean logits of M networks with placeholders, for M forward passes.

    Dummies of different networks have nothing in common, and there may be more of them in one than in another. So the
    ensemble has one dummy logit: the mean of each member's largest one. The embedding is the members' side by side, of
    which the known logits are linear too; so whatever reads the embeddings of a network reads those of an ensemble.
    """

    def __init__(self, members: Sequence[PlaceholderNet]) -> None:
        nn.Module.__init__(self)
        backbones = [member.backbone for member in members]
        size, is_own = sum(each.embedding_size for each in backbones), all(each.is_own for each in backbones)
        places: dict[SplitPoint, str] = dict.fromkeys(get_args(SplitPoint), MEMBERS)
        self.backbone = Backbone({MEMBERS: _SideBySide(backbones)}, size, places, is_own=is_own)
        seen = [each.standardised_by for each in backbones if each.standardised_by is not None]
        if len(seen) == len(backbones):
            means, stds = zip(*seen, strict=True)
            self.backbone.standardised_by = torch.cat(means), torch.cat(stds)
        self.classifier = _MeanKnown([member.classifier for member in members])  # type: ignore[assignment]
        self.dummies = _MeanBestDummy([member.dummies for member in members])  # type: ignore[assignment]

    @property
    def dummies_of_members(self) -> tuple[int, ...]:
        """How many dummies each member has."""
        return tuple(head.out_features for head in self.dummies.heads)  # type: ignore[union-attr]


class _SideBySide(nn.ModuleList):
    """Embeddings [B, d] of all members, [B, sum of d]."""

    def forward(self, images: Tensor) -> Tensor:
        return torch.cat([backbone(images) for backbone in self], dim=1)


class _Heads(nn.Module):
    """A linear head of each member, on that member's part of the embedding."""

    def __init__(self, heads: Sequence[nn.Linear]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)
        self.sizes = [head.in_features for head in heads]

    def of_members(self, embeddings: Tensor) -> list[Tensor]:
        parts = embeddings.split(self.sizes, dim=1)
        return [head(part.contiguous()) for head, part in zip(self.heads, parts, strict=True)]

    def mean(self, values: list[Tensor]) -> Tensor:
        """In the members' order, so that the same sum is rounded alike everywhere."""
        return sum(values[1:], values[0]) / len(values)


class _MeanKnown(_Heads):
    """Logits [B, K] of the known classes; `weight` [K, sum of d] and `bias` [K] are those of the same linear layer."""

    def forward(self, embeddings: Tensor) -> Tensor:
        return self.mean(self.of_members(embeddings))

    @property
    def weight(self) -> Tensor:
        return torch.cat([head.weight for head in self.heads], dim=1) / len(self.heads)  # type: ignore[misc]

    @property
    def bias(self) -> Tensor:
        return self.mean([head.bias for head in self.heads])  # type: ignore[misc]


class _MeanBestDummy(_Heads):
    """The dummy logit [B, 1]."""

    out_features = 1

    def forward(self, embeddings: Tensor) -> Tensor:
        return self.mean([logits.amax(dim=1, keepdim=True) for logits in self.of_members(embeddings)])
