"""The closed-set net `W phi(x)` and the net with C dummy classifiers beside W."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from proser_core.config import NetworkConfig, SplitPoint
from proser_core.errors import ConfigError
from proser_core.naming import unknown_name
from proser_core.networks.backbone import Backbone
from proser_core.networks.classifier32 import classifier32, classifier32_2d, classifier32_flat
from proser_core.networks.libraries import names_in_libraries
from proser_core.networks.pretrained import library_backbone
from proser_core.networks.resnets import resnet18
from proser_core.networks.stages import staged
from proser_core.networks.wide_resnet import wide_resnet28_10
from proser_core.rng import keyed_seed

BACKBONES: dict[str, Callable[[NetworkConfig, int], Backbone]] = {
    "classifier32": classifier32,
    "classifier32_flat": classifier32_flat,
    "classifier32_2d": classifier32_2d,
    "resnet18": resnet18,
    "wide_resnet28_10": wide_resnet28_10,
}


class ClassLogits(NamedTuple):
    """Logits of the known classes [B, K] and of the dummies [B, C]."""

    known: Tensor
    dummies: Tensor


class ClosedSetNet(nn.Module):
    """`W^T phi(x)`: logits [B, K] of the known classes."""

    def __init__(self, backbone: Backbone, num_known: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = nn.Linear(backbone.embedding_size, num_known)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.backbone(images))


class PlaceholderNet(nn.Module):
    """The closed-set net with C dummy classifiers on the same embedding (eq. 4)."""

    def __init__(self, closed_set: ClosedSetNet, num_dummies: int) -> None:
        super().__init__()
        self.backbone, self.classifier = closed_set.backbone, closed_set.classifier
        self.dummies = nn.Linear(self.classifier.in_features, num_dummies)

    def hidden(self, images: Tensor) -> Tensor:
        """phi_pre: [B, 3, H, W] to the representation at the split point."""
        return self.backbone.pre(images)

    def logits(self, hidden: Tensor) -> ClassLogits:
        """Both heads on phi_post(hidden)."""
        embedding = self.backbone.post(hidden)
        return ClassLogits(self.classifier(embedding), self.dummies(embedding))

    def forward(self, images: Tensor) -> ClassLogits:
        return self.logits(self.hidden(images))


def _check_sizes(num_known: int, image_size: int) -> None:
    if num_known < 1:
        raise ConfigError(f"num_known is {num_known}; need the number of known classes, at least 1")
    if image_size < 1:
        raise ConfigError(f"image_size is {image_size}; need the height and width of the images in pixels, at least 1")


def make_closed_set_net(config: NetworkConfig, num_known: int, image_size: int, seed: int) -> ClosedSetNet:
    """Fresh net whose weights depend on `seed`, and on the content of `config.weights_file`, alone.

    Raises ConfigError for a backbone that does not exist or that the images or fields do not suit, and for more classes
    than fit in memory; CheckpointError for a weights file that does not fit it.
    """
    _check_sizes(num_known, image_size)
    build = library_backbone if config.is_of_library else _own_backbone(config.backbone)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keyed_seed(seed, "closed-set weights"))
        backbone = build(config, image_size)
        try:
            return ClosedSetNet(backbone, num_known)
        except RuntimeError as error:  # of torch's allocator
            raise ConfigError(
                f"{num_known:,} known classes on {backbone.embedding_size:,} features of {config.backbone} at "
                f"{image_size} pixels do not fit in memory; give fewer classes, smaller images or another backbone"
            ) from error


def closed_set_net_on(
    network: nn.Module, num_known: int, image_size: int, seed: int, split: SplitPoint = "middle"
) -> ClosedSetNet:
    """The closed-set net on an embedding network of your own, images [B, 3, H, W] to [B, d], which is trained in place.
    The first weights of the classifier depend on `seed` alone.

    Mixtures are made at `split`, between stages of one resolution, where the network is its modules one after the
    other, in training too; of another network early mixes images, middle and late embeddings. Raises ConfigError for a
    network that does not take images of `image_size`, or gives no embedding, and for fewer than one class. Save its
    weights by torch: no `OpenSetClassifier` can name your network.
    """
    _check_sizes(num_known, image_size)
    backbone = staged(network, type(network).__name__, image_size, image_size, split, is_own=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keyed_seed(seed, "closed-set weights"))
        return ClosedSetNet(backbone, num_known)


def _own_backbone(name: str) -> Callable[[NetworkConfig, int], Backbone]:
    """Raises ConfigError for a name that is not among BACKBONES, with the one that it has in a library."""
    if name in BACKBONES:
        return BACKBONES[name]
    if found := names_in_libraries(name):
        raise ConfigError(f"no backbone is called {name!r}; did you mean {' or '.join(found)}?")
    raise ConfigError(unknown_name("backbone", name, [*BACKBONES, "torchvision:NAME", "timm:NAME"]))


def add_placeholders(closed_set: ClosedSetNet, num_dummies: int, seed: int) -> PlaceholderNet:
    """Augment a closed-set net with dummies whose first weights depend on `seed` alone.

    The two nets share backbone and classifier, so training one changes the other; give `copy.deepcopy(closed_set)` to
    keep it. Raises ConfigError for fewer than one dummy.
    """
    if num_dummies < 1:
        raise ConfigError(f"num_dummies is {num_dummies}; need at least 1")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(keyed_seed(seed, "dummy weights"))
        return PlaceholderNet(closed_set, num_dummies)
