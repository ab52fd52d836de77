"""Nets for inference alone. Apart from the nets, so that the keys of trainings do not hold this code."""

import copy
import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from proser_core.networks.nets import ClosedSetNet, PlaceholderNet

LEAST_WORK = 1_000_000
"""Multiplications of an image below which a call of oneDNN takes longer than torch's own code, packed or not."""


class PackedConvolution(nn.Module):
    """A convolution on the CPU whose weights are stored as oneDNN multiplies them with one image. `nn.Conv2d` reorders
    them in each call, a quarter of the time of one image of 32 pixels (docs/speed.md). The order depends on the image's
    size and the number of threads; weights in another one may take ten times as long. Several images share the cost,
    and use the weights as they are. The operations are those that torch.compile uses. Networks of timm read weights
    and options of a convolution, so it has them too; as no parameters, which would be walked over for each image."""

    def __init__(self, convolution: nn.Conv2d) -> None:
        super().__init__()
        for name in nn.Conv2d.__constants__:
            setattr(self, name, getattr(convolution, name))
        self._options = (convolution.padding, convolution.stride, convolution.dilation, convolution.groups)
        self.bias = None if convolution.bias is None else convolution.bias.detach()
        self.weight = convolution.weight.detach()
        self._work = self.weight.numel() / math.prod(convolution.stride)  # for each pixel of an image
        self._packed: dict[tuple[torch.Size, int], Tensor] = {}

    def forward(self, images: Tensor) -> Tensor:
        """float32[N, C, H, W] to float32[N, D, H', W']."""
        if len(images) > 1 or self._work * math.prod(images.shape[2:]) < LEAST_WORK:
            padding, stride, dilation, groups = self._options
            return nn.functional.conv2d(images, self.weight, self.bias, stride, padding, dilation, groups)
        given: Tensor = torch.ops.mkldnn._convolution_pointwise(
            images, self._packed_for(images), self.bias, *self._options, "none", [], ""
        )
        return given

    def _packed_for(self, image: Tensor) -> Tensor:
        key = image.shape, torch.get_num_threads()
        if key not in self._packed:
            self._packed[key] = torch.ops.mkldnn._reorder_convolution_weight(self.weight, *self._options, image.shape)
        return self._packed[key]


def for_inference(net: nn.Module, device: str) -> nn.Module:
    """A copy in evaluation mode that is faster on this device: its norms are folded, and on a CPU its convolutions are
    packed. It is not for training."""
    copied = folded(net).to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    if device == "cpu" and torch.backends.mkldnn.is_available():
        _pack(copied)
    return copied


def _pack(module: nn.Module) -> None:
    for name, child in module.named_children():
        if type(child) is nn.Conv2d:  # not of a class of its own, which may do something else
            if _is_plain(child):
                setattr(module, name, PackedConvolution(child))
        else:
            _pack(child)


def _is_plain(convolution: nn.Conv2d) -> bool:
    padded = convolution.padding_mode == "zeros" and not isinstance(convolution.padding, str)
    return padded and convolution.weight.dtype == torch.float32


def folded(net: nn.Module) -> nn.Module:
    """A copy in evaluation mode, each BatchNorm folded into the convolution before it, also across a dropout, which
    does nothing then: the same within rounding, and a tenth faster. It is not for training, and all of its backbone is
    phi_pre. A network of a method's own or of another library, in which a norm may follow an activation or contain one,
    is only copied.

    `torch.fx` finds such pairs in any net, but while it traces, no other thread may call a module.
    """
    copied = copy.deepcopy(net).eval()
    if not isinstance(copied, ClosedSetNet | PlaceholderNet) or not copied.backbone.is_own:
        return copied
    for module in list(copied.backbone.stages.modules()):
        children = [(name, child) for name, child in module.named_children() if not isinstance(child, nn.Dropout)]
        for (name, convolution), (norm_name, norm) in pairwise(children):
            if isinstance(convolution, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d):
                setattr(module, name, fuse_conv_bn_eval(convolution, norm))
                setattr(module, norm_name, nn.Identity())
    copied.backbone._parts = (copied.backbone.stages, nn.Sequential())
    return copied
