"""The networks of CROSR: a VGG that classifies, and a path back from its stages that reconstructs the image.

DHRNet squeezes each stage through a bottleneck of 32 channels on the way back, LadderNet does not. As in the released
code (KiyoshiKAWASAKI/crosr), whose last ReLU is left out: it cannot give the negative values of standardised images.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from proser_core.config.optimizer import Schedule as ScheduleOfRates
from proser_core.generative.own_network import Schedule, TaskShape
from proser_core.networks.classifier32 import Flat
from proser_core.networks.nets import ClassLogits

SIDE = 4
"""Height and width that the last stage is averaged to where it is larger: that of images of 32 pixels."""


@dataclass(frozen=True, kw_only=True)
class VggSchedule(Schedule):
    """How DHRNet and LadderNet are made and trained."""

    channels: tuple[int, ...]
    """Channels of each stage. Source: released code, CIFAR10."""
    convolutions: tuple[int, ...]
    """In each stage. Source: released code, CIFAR10."""
    hidden: int
    """Width of the two layers before the logits. Source: released code, CIFAR10."""
    latent: int = 32
    """Channels of each bottleneck. Source: released code."""
    rates: ScheduleOfRates = "cosine"
    """How the learning rate changes, step by step."""
    lr: float = 0.05
    """Peak learning rate of SGD with momentum 0.9. Source: released code."""
    weight_decay: float = 5e-4
    """Source: released code."""
    reconstruction_weight: float = 1.0
    """Weight of the mean squared error, beside the cross-entropy. Source: released code."""


class Stage(nn.Sequential):
    """3x3 convolutions with BatchNorm and ReLU, then half of the side, and dropout."""

    def __init__(self, channels_in: int, channels: int, convolutions: int) -> None:
        layers: list[nn.Module] = []
        for number in range(convolutions):
            layers.append(nn.Conv2d(channels if number else channels_in, channels, 3, padding=1))
            layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
        super().__init__(*layers, nn.MaxPool2d(2), nn.Dropout(0.25))


class Bottleneck(nn.Module):
    """A stage's output [B, c, s, s] squeezed to z [B, latent, s, s], and expanded again."""

    def __init__(self, channels: int, latent: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(channels, latent, 3, padding=1)
        self.expand = nn.Conv2d(latent, channels, 3, padding=1)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """z, and the expansion of it."""
        latent = torch.relu(self.squeeze(features))
        return latent, self.expand(latent)


class ReconstructingVgg(nn.Module):
    """Classes and image from one network; with `has_bottlenecks` it is DHRNet, else LadderNet.

    `forward` gives logits [B, K] and, of a DHRNet, the largest value of each channel of each z, deepest stage first, as
    dummies [B, stages * latent].
    """

    def __init__(self, shape: TaskShape, schedule: VggSchedule, *, has_bottlenecks: bool) -> None:
        super().__init__()
        widths = (3, *schedule.channels)
        pairs = list(zip(widths, schedule.channels, strict=False))
        self.stages = nn.ModuleList(Stage(*pair, n) for pair, n in zip(pairs, schedule.convolutions, strict=True))
        latents = schedule.channels if has_bottlenecks else ()
        self.bottlenecks = nn.ModuleList(Bottleneck(channels, schedule.latent) for channels in latents)
        self.enlarge = nn.ModuleList(nn.ConvTranspose2d(after, before, 2, stride=2) for before, after in pairs)
        side, hidden = shape.image_size // 2 ** len(schedule.channels), schedule.hidden
        flat = schedule.channels[-1] * min(side, SIDE) ** 2
        # flat in the channel-first order, whatever the memory format
        pool = [nn.AdaptiveAvgPool2d(SIDE), Flat()] if side > SIDE else [Flat()]
        self.classifier = nn.Sequential(*pool, *_dense(flat, hidden), *_dense(hidden, hidden))
        self.logits = nn.Linear(hidden, shape.num_known)

    def forward(self, images: Tensor) -> ClassLogits:
        outputs = self._outputs(images)
        latents = [bottleneck(each)[0] for bottleneck, each in zip(self.bottlenecks, outputs, strict=False)]
        largest = [latent.amax(dim=(2, 3)) for latent in reversed(latents)]
        known = self._known(outputs)
        return ClassLogits(known, torch.cat(largest, dim=1) if largest else known[:, :0])

    def with_reconstruction(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [B, K], and the reconstruction of the normalised images, [B, 3, H, W]."""
        outputs = self._outputs(images)
        return self._known(outputs), self._reconstruct(outputs)

    def _outputs(self, images: Tensor) -> list[Tensor]:
        outputs = [images]
        for stage in self.stages:
            outputs.append(stage(outputs[-1]))
        return outputs[1:]

    def _known(self, outputs: Sequence[Tensor]) -> Tensor:
        return self.logits(self.classifier(outputs[-1]))

    def _reconstruct(self, outputs: Sequence[Tensor]) -> Tensor:
        """From the last stage back: what a stage gives is added to what came from the stages behind it."""
        lateral = [bottleneck(each)[1] for bottleneck, each in zip(self.bottlenecks, outputs, strict=False)]
        lateral = lateral or list(outputs)
        back = lateral[-1]
        for number in range(len(lateral) - 1, 0, -1):
            back = lateral[number - 1] + torch.relu(self.enlarge[number](back))
        return self.enlarge[0](back)


def _dense(channels_in: int, channels: int) -> list[nn.Module]:
    return [nn.Linear(channels_in, channels), nn.ReLU(inplace=True), nn.Dropout(0.5)]
