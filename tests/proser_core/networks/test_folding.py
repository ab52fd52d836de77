"""Nets for inference: the same logits without a BatchNorm and with packed convolutions, and the trained net as it
was."""

import copy
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from proser_core.config import NetworkConfig
from proser_core.networks import folding
from proser_core.networks.folding import PackedConvolution, folded, for_inference
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet, add_placeholders, make_closed_set_net


def norms(net: nn.Module) -> int:
    return sum(isinstance(module, nn.BatchNorm2d) for module in net.modules())


@pytest.mark.parametrize(
    ("backbone", "left"),
    [("classifier32", 0), ("resnet18", 0), ("wide_resnet28_10", 13)],  # of blocks that begin with one, and the last
)
def test_a_folded_net_gives_the_same_logits(backbone: str, left: int) -> None:
    closed_set = make_closed_set_net(NetworkConfig(backbone=backbone), 5, 16, seed=0)
    net = add_placeholders(closed_set, 3, seed=0)
    images = torch.randn(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        net.train()(images)  # statistics that are not those of a new net
        net.eval()
        before = copy.deepcopy(net.state_dict())
        for each in (net, closed_set):
            without_norms, packed = folded(each), for_inference(each, "cpu")
            assert isinstance(without_norms, PlaceholderNet | ClosedSetNet)
            assert (norms(each) > left, norms(without_norms)) == (True, left)
            assert not any(isinstance(module, nn.Conv2d) for module in packed.modules())
            for other in (without_norms, packed, packed.to("cpu", memory_format=torch.channels_last)):
                torch.testing.assert_close(other(images), each(images), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@given(
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    dilation=st.integers(1, 2),
    groups=st.sampled_from((1, 2, 4)),
    bias=st.booleans(),
    number=st.integers(1, 3),
    least=st.sampled_from((0, folding.LEAST_WORK)),
)
def test_a_packed_convolution_is_the_convolution(
    kernel: int, stride: int, dilation: int, groups: int, bias: bool, number: int, least: int
) -> None:
    """In both memory formats, and at another size and number of images than at first; large or small."""
    convolution = nn.Conv2d(4, 8, kernel, stride, kernel // 2, dilation, groups, bias)
    packed = PackedConvolution(convolution)
    with torch.no_grad(), mock.patch.object(folding, "LEAST_WORK", least):
        for size in (8, 7):
            images = torch.randn(number, 4, size, size)
            for memory_format in (torch.contiguous_format, torch.channels_last):
                given_images = images.contiguous(memory_format=memory_format)
                torch.testing.assert_close(packed(given_images), convolution(given_images), rtol=1e-5, atol=1e-5)


def test_weights_are_reordered_for_one_image_once(capfd: pytest.CaptureFixture[str]) -> None:
    """By the lines that oneDNN prints of what it does, at both numbers of threads."""
    net = for_inference(make_closed_set_net(NetworkConfig(backbone="classifier32"), 5, 32, seed=0), "cpu")
    image = torch.zeros(1, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    before = torch.get_num_threads()
    try:
        for reorders in (True, False):
            for threads in (1, 2):
                torch.set_num_threads(threads)
                with torch.inference_mode(), torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
                    net(image)
                lines = capfd.readouterr().out.splitlines()
                assert sum("convolution" in line for line in lines) == 9
                assert any("reorder" in line and "x3x3," in line for line in lines) == reorders
    finally:
        torch.set_num_threads(before)


class Asymmetric(nn.Module):
    """Reads its convolution, as timm's EdgeNeXt and DaViT do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, (3, 2), (2, 1), groups=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        conv, (height, width) = self.conv, self.conv.kernel_size
        padded = nn.functional.pad(images, (0, width - conv.stride[1], 0, height - conv.stride[0]))
        assert conv.bias is not None
        return conv(padded.to(conv.weight.dtype)) - conv.bias[:, None, None]


def test_a_net_may_read_its_convolutions() -> None:
    net, images = Asymmetric(), torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(for_inference(net, "cpu")(images), net(images), rtol=1e-4, atol=1e-5)


def test_convolutions_that_pad_in_another_way_stay() -> None:
    net = nn.Sequential(nn.Conv2d(3, 3, 3, padding="same"), nn.Conv2d(3, 3, 3, padding=1, padding_mode="reflect"))
    assert [type(module) for module in for_inference(net, "cpu")] == [nn.Conv2d, nn.Conv2d]  # type: ignore[arg-type]


def test_a_net_answers_while_another_one_is_folded() -> None:
    net = make_closed_set_net(NetworkConfig(backbone="classifier32"), 5, 16, seed=0).eval()
    images = torch.zeros(1, 3, 16, 16)
    with ThreadPoolExecutor(1) as other, torch.no_grad():
        before = net(images)
        folding = other.submit(lambda: [for_inference(net, "cpu") for _ in range(20)])
        while not folding.done():
            torch.testing.assert_close(net(images), before)
        folding.result()
