"""ResNet-18 (He et al. 2016) in its form for 32-pixel images."""

from torch import nn

from proser_core.config import NetworkConfig, SplitPoint
from proser_core.networks.backbone import Backbone, average_pool, refuse_fields


def resnet18(config: NetworkConfig, image_size: int) -> Backbone:
    """Torchvision's blocks behind a 3x3 stem of stride 1 and no max-pool; 512-d, average-pooled; late cuts before the
    last block.

    The habit of the field at 32 pixels. Raises ConfigError where dropout or a weights file is set.
    """
    from torchvision import models  # takes seconds, for those who use it

    refuse_fields(config, "dropout", "weights_file", "weights")
    net = models.resnet18()
    stem = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
    layers = {name: getattr(net, name) for name in ("layer1", "layer2", "layer3", "layer4")}
    stages = {"conv1": stem, "bn1": net.bn1, "relu": net.relu, **layers, "head": average_pool()}
    splits: dict[SplitPoint, str] = {"early": "layer2", "middle": "layer3", "late": "layer4.0"}
    return Backbone(stages, net.fc.in_features, splits, config.split)
