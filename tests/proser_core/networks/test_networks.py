import copy

import pytest
import torch
from small_tasks import bit_equal
from torch import nn

from proser_core.config import NetworkConfig
from proser_core.errors import ConfigError
from proser_core.networks.nets import BACKBONES, PlaceholderNet, add_placeholders, make_closed_set_net


def images(count: int = 3, size: int = 32) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("backbone", "size", "embedding"),
    [
        ("classifier32", 28, 128),
        ("classifier32", 8, 128),
        ("classifier32_flat", 28, 2048),
        ("classifier32_flat", 24, 1152),
        ("classifier32_flat", 9, 512),
        ("classifier32_2d", 28, 2),
        ("classifier32_2d", 8, 2),
    ],
)
def test_the_embedding_and_both_heads_have_their_sizes(backbone, size, embedding):
    closed_set = make_closed_set_net(NetworkConfig(backbone=backbone), 7, size, seed=0).eval()
    net = add_placeholders(closed_set, 4, seed=0).eval()
    assert closed_set.backbone(images(size=size)).shape == (3, embedding)
    assert closed_set.backbone.embedding_size == embedding
    assert closed_set(images(size=size)).shape == (3, 7)
    logits = net(images(size=size))
    assert logits.known.shape == (3, 7)
    assert logits.dummies.shape == (3, 4)


SPLITS = ("early", "middle", "late")
HIDDEN = {
    "classifier32": [(128, 16), (128, 8), (128, 8)],
    "classifier32_flat": [(128, 16), (128, 8), (128, 8)],
    "classifier32_2d": [(128, 16), (128, 8), (128, 8)],
    "resnet18": [(128, 16), (256, 8), (512, 4)],
    "wide_resnet28_10": [(160, 32), (320, 16), (640, 8)],
}
EMBEDDING = dict(zip(HIDDEN, (128, 2048, 2, 512, 640), strict=True))


def net_of(backbone: str, split: str = "middle", seed: int = 0):
    config = NetworkConfig(backbone=backbone, split=split)
    return add_placeholders(make_closed_set_net(config, 5, 32, seed), 2, seed)


@pytest.fixture(scope="module", params=sorted(BACKBONES))
def kind(request: pytest.FixtureRequest) -> str:
    """A backbone's name; the tests of one follow each other, so that no more than its networks are in memory."""
    return request.param


@pytest.fixture(scope="module")
def nets(kind: str) -> dict[str, PlaceholderNet]:
    """By split, in evaluation mode, for tests that change nothing in them."""
    return {split: net_of(kind, split).eval() for split in SPLITS}


@pytest.mark.parametrize("split", SPLITS)
def test_pre_and_then_post_is_the_whole_network_at_every_split(
    kind: str, nets: dict[str, PlaceholderNet], split: str
) -> None:
    net = nets[split]
    hidden = net.hidden(images(1))
    channels, side = HIDDEN[kind][SPLITS.index(split)]
    assert hidden.shape == (1, channels, side, side)
    whole, split_in_two = net.backbone(images(1)), net.backbone.post(hidden)
    assert whole.shape == (1, EMBEDDING[kind])
    assert torch.equal(whole, split_in_two)
    assert torch.equal(net.logits(hidden).known, net.classifier(whole))
    assert split in net.backbone.split_point


def test_every_weight_of_a_backbone_gets_a_gradient_in_training(kind: str, nets: dict[str, PlaceholderNet]) -> None:
    net = copy.deepcopy(nets["middle"]).train().to(memory_format=torch.channels_last)
    sum(logits.square().sum() for logits in net(images(2))).backward()
    gradients = {name: parameter.grad for name, parameter in net.named_parameters()}
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients.values())
    assert all(torch.any(gradients[name] != 0) for name in gradients if name.endswith("weight"))


def test_the_split_changes_neither_names_nor_values_of_the_weights(nets: dict[str, PlaceholderNet]) -> None:
    early, middle, late = (nets[split].state_dict() for split in SPLITS)
    assert bit_equal(early, middle)
    assert bit_equal(middle, late)
    assert list(early) == list(late)


@pytest.mark.parametrize("split", SPLITS)
def test_a_copy_of_a_network_has_weights_of_its_own_on_both_sides_of_the_cut(split):
    net = net_of("classifier32", split).eval()
    twin = copy.deepcopy(net)
    before = net(images()).known
    with torch.no_grad():
        for parameter in twin.backbone.parameters():
            parameter.mul_(2)
    assert torch.equal(net(images()).known, before)
    assert torch.equal(twin(images()).known, twin.classifier(twin.backbone(images())))
    assert not torch.equal(twin(images()).known, before)


def test_wide_resnet28_10_is_as_released():
    net = make_closed_set_net(NetworkConfig(backbone="wide_resnet28_10", dropout=0.3), 6, 32, seed=0).backbone
    convolutions = [module for module in net.modules() if isinstance(module, nn.Conv2d)]
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    assert len([module for module in convolutions if module.kernel_size == (3, 3)]) == 25
    assert len([module for module in convolutions if module.kernel_size == (1, 1)]) == 3
    assert all(module.bias is not None for module in convolutions)
    assert [norm.momentum for norm in norms] == 24 * [0.1] + [0.9]
    assert [module.p for module in net.modules() if isinstance(module, nn.Dropout)] == 12 * [0.3]
    assert 36.4e6 < sum(parameter.numel() for parameter in net.parameters()) < 36.6e6


def test_resnet18_for_small_images_keeps_their_size_until_the_second_stage():
    backbone = net_of("resnet18").backbone
    assert backbone.stages[:4](images()).shape == (3, 64, 32, 32)
    assert not any(isinstance(module, nn.MaxPool2d) for module in backbone.modules())


@pytest.mark.parametrize(
    ("backbone", "field"),
    [
        ("resnet18", {"dropout": 0.2}),
        ("resnet18", {"weights_file": "resnet18.pth"}),
        ("classifier32", {"weights_file": "resnet18.pth"}),
        ("wide_resnet28_10", {"weights_file": "resnet18.pth"}),
    ],
)
def test_a_field_that_a_backbone_has_no_use_for_is_refused(backbone, field):
    (name,) = field
    with pytest.raises(ConfigError, match=rf"network.{name} is .* {backbone} has no use for it; give --network"):
        make_closed_set_net(NetworkConfig(backbone=backbone, **field), 5, 64, seed=0)


def test_the_average_pooled_embedding_is_the_mean_over_the_flat_one():
    pooled = make_closed_set_net(NetworkConfig(backbone="classifier32"), 5, 32, seed=3).backbone.eval()
    flat = make_closed_set_net(NetworkConfig(backbone="classifier32_flat"), 5, 32, seed=3).backbone.eval()
    flat.load_state_dict(pooled.state_dict())
    means = flat(images()).view(3, 128, 16).mean(2)
    torch.testing.assert_close(pooled(images()), means, rtol=1e-4, atol=1e-5)
    last = images().contiguous(memory_format=torch.channels_last)
    flat_last = flat.to(memory_format=torch.channels_last)(last)
    torch.testing.assert_close(flat_last.view(3, 128, 16).mean(2), means, rtol=1e-4, atol=1e-5)


def test_the_2d_embedding_is_a_linear_layer_on_the_pooled_one():
    plane = make_closed_set_net(NetworkConfig(backbone="classifier32_2d"), 5, 32, seed=3).backbone.eval()
    pooled = make_closed_set_net(NetworkConfig(backbone="classifier32"), 5, 32, seed=3).backbone.eval()
    pooled.load_state_dict({name: value for name, value in plane.state_dict().items() if "plane" not in name})
    torch.testing.assert_close(plane(images()), plane.stages.head.plane(pooled(images())))


def test_classifier32_has_nine_convolutions_and_about_a_million_parameters():
    backbone = make_closed_set_net(NetworkConfig(), 10, 32, seed=0).backbone
    assert sum(isinstance(module, nn.Conv2d) for module in backbone.modules()) == 9
    widths = [(3, 64), (64, 64), (64, 128)] + 6 * [(128, 128)]
    convolutions = sum(9 * a * b for a, b in widths)
    norms = 2 * sum(b for _, b in widths)
    assert sum(parameter.numel() for parameter in backbone.parameters()) == convolutions + norms
    assert 0.95e6 < convolutions + norms < 1.05e6


def test_dropout_is_there_only_where_it_is_asked_for_and_leaves_the_names_and_values_of_the_weights():
    plain, dropping = (make_closed_set_net(NetworkConfig(dropout=rate), 5, 32, seed=0) for rate in (0.0, 0.2))
    for net, rates in ((plain, []), (dropping, [0.2, 0.2, 0.2])):
        assert [module.p for module in net.modules() if isinstance(module, nn.Dropout2d)] == rates
    assert bit_equal(plain.state_dict(), dropping.state_dict())


def test_fresh_weights_depend_on_the_seed_alone_and_leave_the_global_generator_alone():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first = add_placeholders(make_closed_set_net(NetworkConfig(), 5, 32, seed=1), 2, seed=1).state_dict()
    assert torch.equal(torch.rand(3), expected)
    again = add_placeholders(make_closed_set_net(NetworkConfig(), 5, 32, seed=1), 2, seed=1).state_dict()
    other = add_placeholders(make_closed_set_net(NetworkConfig(), 5, 32, seed=2), 2, seed=2).state_dict()
    assert bit_equal(first, again)
    for name in ("dummies.weight", "backbone.stages.stage1.block1.conv.weight"):
        assert not torch.equal(first[name], other[name])


def test_placeholders_leave_the_closed_set_logits_as_they_are():
    closed_set = make_closed_set_net(NetworkConfig(), 5, 32, seed=1).eval()
    assert torch.equal(add_placeholders(closed_set, 3, seed=1).eval()(images()).known, closed_set(images()))


@pytest.mark.parametrize("num_known", [10**13, 10**18])
def test_more_classes_than_fit_in_memory_are_refused(num_known):
    with pytest.raises(ConfigError, match=rf"^{num_known:,} known classes on 128 features .* do not fit in memory"):
        make_closed_set_net(NetworkConfig(), num_known, 32, seed=1)


def test_a_mistyped_backbone_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"did you mean 'classifier32'\?"):
        make_closed_set_net(NetworkConfig(backbone="classifer32"), 5, 32, seed=0)
