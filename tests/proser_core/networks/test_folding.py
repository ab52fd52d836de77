"""Nets for inference: the same logits without a BatchNorm, and the trained net as it was."""

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn

from proser_core.config import NetworkConfig
from proser_core.networks.folding import for_inference
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
    images = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        net.train()(images)  # statistics that are not those of a new net
        net.eval()
        before = copy.deepcopy(net.state_dict())
        for each in (net, closed_set):
            folded = for_inference(each)
            assert isinstance(folded, PlaceholderNet | ClosedSetNet)
            assert (norms(each) > left, norms(folded)) == (True, left)
            torch.testing.assert_close(folded(images), each(images), rtol=1e-4, atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_a_net_answers_while_another_one_is_folded() -> None:
    net = make_closed_set_net(NetworkConfig(backbone="classifier32"), 5, 16, seed=0).eval()
    images = torch.zeros(1, 3, 16, 16)
    with ThreadPoolExecutor(1) as other, torch.no_grad():
        before = net(images)
        folding = other.submit(lambda: [for_inference(net) for _ in range(20)])
        while not folding.done():
            torch.testing.assert_close(net(images), before)
        folding.result()
