"""Torchvision's ResNets as they are, for larger images, with torchvision's own weights from a file."""

from pathlib import Path

from proser_core.config import NetworkConfig, SplitPoint
from proser_core.errors import ConfigError
from proser_core.networks.backbone import Backbone, average_pool, refuse_fields
from proser_core.networks.weights import load_torchvision

STAGES = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4")
SMALLEST = 64
"""Pixels. The nets end in 7 x 7 positions at 224 pixels, and in 2 x 2 at 64."""


def resnet18_224(config: NetworkConfig, image_size: int) -> Backbone:
    """ResNet-18 for 224 pixels, 512-d."""
    return _resnet("resnet18", config, image_size)


def resnet34_224(config: NetworkConfig, image_size: int) -> Backbone:
    """ResNet-34 for 224 pixels, 512-d."""
    return _resnet("resnet34", config, image_size)


def resnet50_224(config: NetworkConfig, image_size: int) -> Backbone:
    """ResNet-50 for 224 pixels, 2048-d."""
    return _resnet("resnet50", config, image_size)


def _resnet(name: str, config: NetworkConfig, image_size: int) -> Backbone:
    """Raises ConfigError for images that are too small, CheckpointError for a file that does not fit."""
    from torchvision import models  # takes seconds, for those who use it

    refuse_fields(config, "dropout")
    if image_size < SMALLEST:
        raise ConfigError(
            f"data.image_size {image_size} is too small for {config.backbone}, which halves an image five times; "
            f"set data.image_size to 224, as it was pretrained, or at least {SMALLEST}, or the backbone resnet18"
        )
    net = getattr(models, name)()
    last_block = len(net.layer4) - 2
    splits: dict[SplitPoint, str] = {"early": "layer2", "middle": "layer3", "late": f"layer4.{last_block}"}
    stages = {name: getattr(net, name) for name in STAGES}
    backbone = Backbone({**stages, "head": average_pool()}, net.fc.in_features, splits, config.split)
    if config.weights_file:
        load_torchvision(backbone.stages, Path(config.weights_file))
    return backbone
