"""`closed_set_net_on`: any embedding network, cut where its stages allow it."""

import copy
import random

import pytest
import torch
from torch import Tensor, nn

from proser_core import add_placeholders, closed_set_net_on
from proser_core.config import SplitPoint
from proser_core.errors import ConfigError

IMAGES = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def block(channels_in: int, channels: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels_in, channels, 3, stride, 1), nn.BatchNorm2d(channels), nn.ReLU())


def in_stages() -> nn.Sequential:
    return nn.Sequential(block(3, 4), block(4, 6, stride=2), nn.AdaptiveAvgPool2d(1), nn.Flatten())


class AroundALayer(nn.Module):
    """More than its modules one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.flat, self.layer = nn.Flatten(), nn.Linear(192, 192)

    def forward(self, images: Tensor) -> Tensor:
        return self.flat(images) + self.layer(self.flat(images))


@pytest.mark.parametrize("split", ["early", "middle", "late"])
def test_a_sequence_of_stages_is_cut_between_them_and_computes_what_it_did(split: SplitPoint) -> None:
    network = in_stages().eval()
    net = closed_set_net_on(network, 3, 8, 0, split).eval()
    assert torch.equal(net.backbone(IMAGES), network(IMAGES))
    hidden = net.backbone.pre(IMAGES)
    assert hidden.shape[1:] == (4, 8, 8), "after the stage of whole images"
    assert torch.equal(net.backbone.post(hidden), network(IMAGES))
    assert net.classifier.in_features == 6


@pytest.mark.parametrize(("split", "shape"), [("early", (4, 3, 8, 8)), ("middle", (4, 192)), ("late", (4, 192))])
def test_any_other_network_mixes_images_or_embeddings(split: SplitPoint, shape: tuple[int, ...]) -> None:
    net = closed_set_net_on(AroundALayer(), 3, 8, 0, split)
    assert net.backbone.pre(IMAGES).shape == shape


def with_one_activation() -> nn.Sequential:
    act = nn.ReLU()
    first = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), act, nn.Conv2d(4, 4, 3, 1, 1), act, nn.MaxPool2d(2))
    second = nn.Sequential(nn.Conv2d(4, 6, 3, 1, 1), act, nn.Conv2d(6, 6, 3, 1, 1), act)
    return nn.Sequential(first, second, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def flattened(network: nn.Sequential) -> nn.Sequential:
    return nn.Sequential(*network[0], *network[1], *network[2:])


@pytest.mark.parametrize("network", [with_one_activation(), flattened(with_one_activation())])
@pytest.mark.parametrize("split", ["early", "middle", "late"])
def test_a_module_that_is_used_twice_counts_twice(network: nn.Sequential, split: SplitPoint) -> None:
    backbone = closed_set_net_on(network, 3, 8, 0, split).backbone.eval()
    assert torch.equal(backbone(IMAGES), network(IMAGES))
    assert torch.equal(backbone.post(backbone.pre(IMAGES)), network(IMAGES))
    assert "after" in backbone.split_point


class NamedAsItsFunctions(nn.Module):
    """Its last activation and pooling are functions, and blocks have the names of these."""

    def __init__(self) -> None:
        super().__init__()
        self.pool, self.dropout, self.relu, self.head = block(3, 4), None, block(4, 6, stride=2), nn.Linear(6, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(nn.functional.relu(self.relu(self.pool(images))).mean((2, 3)))


def test_a_child_may_have_the_name_of_what_forward_does_by_functions() -> None:
    backbone = closed_set_net_on(NamedAsItsFunctions(), 3, 8, 0).backbone
    assert (backbone.split_point, backbone.embedding_size) == ("middle: after pool.2", 5)


class InStages(nn.Module):
    """Under a `forward` and a `train` of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.features, self.dropped = nn.Sequential(block(3, 4), block(4, 6, stride=2)), nn.Dropout(0.5)
        self.pool, self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), nn.Linear(6, 5)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.pool(self.dropped(self.features(images))))


class DropsInForward(InStages):
    def forward(self, images: Tensor) -> Tensor:
        return self.head(nn.functional.dropout(self.pool(self.dropped(self.features(images))), 0.5, self.training))


class ScaledAtRandom(nn.Module):
    """By Python's generator."""

    def forward(self, features: Tensor) -> Tensor:
        return features * random.random() if self.training else features


class DrawsByPython(InStages):
    def __init__(self) -> None:
        super().__init__()
        self.features.append(ScaledAtRandom())


class FreezesInTrain(InStages):
    def train(self, mode: bool = True) -> "FreezesInTrain":
        super().train(mode)
        self.features.eval()
        return self


@pytest.mark.parametrize(
    ("network", "where"),
    [
        (InStages(), "after features.0"),
        (DrawsByPython(), "after features.0"),
        (DropsInForward(), "of embeddings"),
        (FreezesInTrain(), "of embeddings"),
    ],
)
def test_a_network_that_does_more_in_training_stays_whole(network: nn.Module, where: str) -> None:
    before, drawn = copy.deepcopy(network.state_dict()), torch.get_rng_state()
    backbone = closed_set_net_on(network, 3, 8, 0).backbone
    assert backbone.split_point == f"middle: {where}"
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


class Doubled(nn.Module):
    """In place."""

    def forward(self, images: Tensor) -> Tensor:
        return images.mul_(2.0)


def test_a_network_that_works_on_its_images_in_place_is_cut_too() -> None:
    backbone = closed_set_net_on(nn.Sequential(Doubled(), *in_stages()), 3, 8, 0).backbone
    assert backbone.split_point == "middle: after 1.2"


class Named(InStages):
    def forward(self, images: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        return {"embedding": super().forward(images)}


def test_lazy_layers_get_their_shapes_and_are_trained() -> None:
    network = nn.Sequential(nn.LazyConv2d(4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.LazyLinear(6))
    net = closed_set_net_on(network, 3, 8, 0)
    net(IMAGES).sum().backward()
    assert all(each.grad is not None for each in net.parameters())


class Projection(nn.Module):
    """Parameters without a module of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(192, 5))

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1) @ self.weight


@pytest.mark.parametrize(("network", "size"), [(nn.Flatten(), 192), (Projection(), 5)])
def test_a_network_without_children_is_one(network: nn.Module, size: int) -> None:
    backbone = closed_set_net_on(network, 3, 8, 0).backbone
    assert (backbone.split_point, backbone.embedding_size) == ("middle: of embeddings", size)


def test_its_weights_stay_and_are_trained_in_place_and_the_seed_makes_the_classifiers() -> None:
    network = in_stages()
    before = copy.deepcopy(network.state_dict())
    nets = [closed_set_net_on(network, 3, 8, seed) for seed in (0, 0, 1)]
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    first, same, other = (net.classifier.weight for net in nets)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    add_placeholders(nets[0], 2, 0)(IMAGES).dummies.sum().backward()
    assert all(each.grad is not None for each in network.parameters())


@pytest.mark.parametrize(
    ("network", "num_known", "image_size", "message"),
    [
        (in_stages(), 0, 8, "num_known is 0; need the number of known classes"),
        (in_stages(), 3, 0, "image_size is 0; need the height and width"),
        (AroundALayer(), 3, 16, "AroundALayer does not take images of 16 pixels .*; choose another backbone"),
        (block(3, 4), 3, 8, r"Sequential gives \(1, 4, 8, 8\) for an image, no embedding"),
        (Named(), 3, 8, "Named gives a dict for an image, no embedding"),
    ],
)
def test_what_cannot_be_a_backbone_is_refused(
    network: nn.Module, num_known: int, image_size: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        closed_set_net_on(network, num_known, image_size, 0)
