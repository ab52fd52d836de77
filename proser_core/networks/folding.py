"""Nets for inference alone. Apart from the nets, so that the keys of trainings do not hold this code."""

import copy
from itertools import pairwise

from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from proser_core.networks.nets import ClosedSetNet, PlaceholderNet


def for_inference(net: nn.Module) -> nn.Module:
    """A copy in evaluation mode, each BatchNorm folded into the convolution before it, also across a dropout, which
    does nothing then: the same within rounding, and a tenth faster. It is not for training, and all of its backbone is
    phi_pre. A network of a method's own or of another library, in which a norm may follow an activation or contain one,
    is only copied.

    `torch.fx` finds such pairs in any net, but while it traces, no other thread may call a module.
    """
    folded = copy.deepcopy(net).eval()
    if not isinstance(folded, ClosedSetNet | PlaceholderNet) or not folded.backbone.is_own:
        return folded
    for module in list(folded.backbone.stages.modules()):
        children = [(name, child) for name, child in module.named_children() if not isinstance(child, nn.Dropout)]
        for (name, convolution), (norm_name, norm) in pairwise(children):
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, name, fuse_conv_bn_eval(convolution, norm))
                setattr(module, norm_name, nn.Identity())
    folded.backbone._parts = (folded.backbone.stages, nn.Sequential())
    return folded
