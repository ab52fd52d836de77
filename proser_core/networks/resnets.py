"""Torchvision's ResNets (He et al. 2016): ResNet-18 in its form for 32-pixel images, and three as they are, for larger
images, with torchvision's own weights from a file."""

from pathlib import Path
from typing import Any

from torch import nn

from proser_core.config import NetworkConfig, SplitPoint
from proser_core.errors import ConfigError
from proser_core.networks.backbone import Backbone, average_pool, refuse_fields
from proser_core.networks.weights import load_headless

SMALLEST = 64
"""Pixels. The nets for 224 pixels end in 7 x 7 positions there, and in 2 x 2 at 64."""


def resnet18(config: NetworkConfig, image_size: int) -> Backbone:
    """Torchvision's blocks behind a 3x3 stem of stride 1 and no max-pool; 512-d, average-pooled.

    The habit of the field at 32 pixels. Raises ConfigError where dropout or a weights file is set.
    """
    from torchvision import models  # takes seconds, for those who use it

    refuse_fields(config, "dropout", "weights_file", "weights")
    net = models.resnet18()
    stem = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
    return _backbone(net, {"conv1": stem, "bn1": net.bn1, "relu": net.relu}, config)


def resnet_224(config: NetworkConfig, image_size: int) -> Backbone:
    """ResNet-18 and ResNet-34 (512-d) or ResNet-50 (2048-d) for 224 pixels, as the name of the backbone says.

    Raises ConfigError for images that are too small, CheckpointError for a file that does not fit.
    """
    from torchvision import models  # takes seconds, for those who use it

    refuse_fields(config, "dropout", "weights")
    if image_size < SMALLEST:
        raise ConfigError(
            f"data.image_size {image_size} is too small for {config.backbone}, which halves an image five times; "
            f"set data.image_size to 224, as it was pretrained, or at least {SMALLEST}, or the backbone resnet18"
        )
    net = models.get_model(config.backbone.removesuffix("_224"))
    stem = {"conv1": net.conv1, "bn1": net.bn1, "relu": net.relu, "maxpool": net.maxpool}
    backbone = _backbone(net, stem, config)
    if config.weights_file:
        remedy = "Give the weights of the same ResNet as torchvision saves them"
        load_headless(backbone.stages, Path(config.weights_file), ("fc",), remedy)
    return backbone


def _backbone(net: Any, stem: dict[str, nn.Module], config: NetworkConfig) -> Backbone:
    """`stem`, and the four layers of a torchvision ResNet; late cuts before the last block."""
    layers = {name: getattr(net, name) for name in ("layer1", "layer2", "layer3", "layer4")}
    last_block = len(net.layer4) - 2
    splits: dict[SplitPoint, str] = {"early": "layer2", "middle": "layer3", "late": f"layer4.{last_block}"}
    return Backbone({**stem, **layers, "head": average_pool()}, net.fc.in_features, splits, config.split)
