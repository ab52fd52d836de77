"""Nets for inference alone. Apart from the nets, so that the keys of trainings do not hold this code."""

import copy

from torch import nn
from torch.fx.experimental.optimization import fuse

from proser_core.networks.nets import ClosedSetNet, PlaceholderNet


def for_inference(net: ClosedSetNet | PlaceholderNet) -> ClosedSetNet | PlaceholderNet:
    """A copy in evaluation mode, each BatchNorm folded into the convolution before it: the same within rounding, and a
    tenth faster. It is not for training, and all of its backbone is phi_pre."""
    folded = copy.deepcopy(net).eval()
    folded.backbone.stages = nn.Sequential(fuse(folded.backbone.stages))
    folded.backbone._parts = (folded.backbone.stages, nn.Sequential())
    return folded
