"""Wide ResNet (Zagoruyko and Komodakis 2016), the backbone of the paper's released code."""

from torch import Tensor, nn

from proser_core.config import NetworkConfig, SplitPoint
from proser_core.networks.backbone import Backbone, average_pool, refuse_fields

WIDTHS = (16, 160, 320, 640)
"""Channels of the stem and of the three stages: 16 and 10 times 16, 32, 64."""
BLOCKS = 4
"""Blocks in a stage: (28 - 4) / 6."""
SPLITS: dict[SplitPoint, str] = {"early": "layer1", "middle": "layer2", "late": "layer3.2"}


class WideBlock(nn.Module):
    """`shortcut(x) + conv(relu(bn(dropout(conv(relu(bn(x)))))))`; the second convolution has the stride."""

    def __init__(self, channels_in: int, channels: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.BatchNorm2d(channels_in),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels_in, channels, 3, padding=1),
            nn.Dropout(dropout),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, stride, padding=1),
        )
        same = stride == 1 and channels_in == channels
        self.shortcut = nn.Identity() if same else nn.Conv2d(channels_in, channels, 1, stride)

    def forward(self, features: Tensor) -> Tensor:
        return self.residual(features) + self.shortcut(features)


def wide_resnet28_10(config: NetworkConfig, image_size: int) -> Backbone:
    """WRN-28-10 for 32 pixels, 36 million parameters, average-pooled to 640-d.

    As released: biases in the convolutions, momentum 0.9 in the last BatchNorm, torch's own first weights, dropout 0.3
    (network.dropout) inside each block, mixtures before the last stage. Departure from the released code, which
    classifies known classes by a hidden layer of 50 and gives the dummies the 640-d features: W and the dummies share
    one embedding, as in the paper. Raises ConfigError where a weights file is set.
    """
    refuse_fields(config, "weights_file", "weights")
    stages: dict[str, nn.Module] = {"conv1": nn.Conv2d(3, WIDTHS[0], 3, padding=1)}
    for index, stride in enumerate((1, 2, 2)):
        stages[f"layer{index + 1}"] = _stage(WIDTHS[index], WIDTHS[index + 1], stride, config.dropout)
    stages |= {"norm": nn.BatchNorm2d(WIDTHS[-1], momentum=0.9), "relu": nn.ReLU(inplace=True), "head": average_pool()}
    return Backbone(stages, WIDTHS[-1], SPLITS, config.split)


def _stage(channels_in: int, channels: int, stride: int, dropout: float) -> nn.Sequential:
    first = WideBlock(channels_in, channels, stride, dropout)
    return nn.Sequential(first, *(WideBlock(channels, channels, 1, dropout) for _ in range(BLOCKS - 1)))
