"""What every backbone has: phi = phi_post(phi_pre(x)) and the size of the embedding."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Self

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from proser_core.config import NetworkConfig, SplitPoint
from proser_core.errors import ConfigError

IMAGE = ""
"""The image as a split point: phi_pre is the identity, and images are mixed."""


class Backbone(nn.Module):
    """Embedding network [B, 3, H, W] -> [B, d]: named stages, cut after one of them (eq. 6).

    `splits` names the last module of phi_pre for early, middle and late: a stage ("layer3"), or a
    block inside one ("layer4.0"), or IMAGE. The names of the parameters do not depend on the cut, so that
    weights trained with one split load under another. `is_own` says that a BatchNorm that stands behind a convolution
    is applied to what it gives, as in this project's networks. With `keeps_statistics` each BatchNorm normalises in
    training as in evaluation, by what it was pretrained with: a head that was trained on frozen features fits no other.
    `standardised_by` are the mean and standard deviation [d] of the features that such a head was trained on; the head
    itself takes embeddings as they are.
    """

    def __init__(
        self,
        stages: Mapping[str, nn.Module],
        embedding_size: int,
        splits: Mapping[SplitPoint, str],
        split: SplitPoint = "middle",
        *,
        is_own: bool = True,
    ) -> None:
        super().__init__()
        self.stages = nn.Sequential(OrderedDict(stages))
        self.embedding_size = embedding_size
        place = splits[split]
        self._parts = _cut(self.stages, place)  # a tuple: its modules are registered in `stages` alone
        is_embedding = place == list(self.stages._modules)[-1]
        self.split_point = f"{split}: " + (
            "of images" if place == IMAGE else "of embeddings" if is_embedding else f"after {place}"
        )
        self.is_own = is_own
        self.keeps_statistics = False
        self.standardised_by: tuple[Tensor, Tensor] | None = None

    @property
    def pre(self) -> nn.Sequential:
        """phi_pre: [B, 3, H, W] to the representation at the split point."""
        return self._parts[0]

    @property
    def post(self) -> nn.Sequential:
        """phi_post: the representation at the split point to the embedding [B, d]."""
        return self._parts[1]

    def forward(self, images: Tensor) -> Tensor:
        return self.stages(images)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.keeps_statistics:
            for module in self.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self


def _cut(stages: nn.Sequential, last: str) -> tuple[nn.Sequential, nn.Sequential]:
    """The stages up to `last`, and the rest; both share the modules of `stages`."""
    if last == IMAGE:
        return nn.Sequential(), stages[:]
    name, _, inside = last.partition(".")
    cut = list(stages._modules).index(name) + 1
    if not inside:
        return stages[:cut], stages[cut:]
    stage = stages[cut - 1]
    assert isinstance(stage, nn.Sequential)
    first, second = _cut(nn.Sequential(OrderedDict(stage._modules)), inside)
    return nn.Sequential(*stages[: cut - 1], first), nn.Sequential(second, *stages[cut:])


def average_pool() -> nn.Sequential:
    """[B, d, H, W] to the mean over positions, [B, d]."""
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())


def refuse_fields(config: NetworkConfig, *names: str) -> None:
    """Raises ConfigError for a field that was set and that the backbone has no use for."""
    plain = NetworkConfig()
    for name in names:
        value, default = getattr(config, name), getattr(plain, name)
        if value != default:
            raise ConfigError(
                f"network.{name} is {value!r}, and the backbone {config.backbone} has no use for it; "
                f"give --network.{name.replace('_', '-')} {default!r}: the recipe or the schedule may have set it"
            )
