import pytest
import torch
from torch import nn

from proser_core.config import NetworkConfig
from proser_core.errors import ConfigError
from proser_core.networks.nets import BACKBONES, add_placeholders, make_closed_set_net

from .helpers import bit_equal


def images(count: int = 3, size: int = 32) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("backbone", "size", "embedding"),
    [
        ("classifier32", 32, 128),
        ("classifier32", 28, 128),
        ("classifier32", 8, 128),
        ("classifier32_flat", 32, 2048),
        ("classifier32_flat", 28, 2048),
        ("classifier32_flat", 24, 1152),
        ("classifier32_flat", 9, 512),
    ],
)
def test_the_embedding_and_both_heads_have_their_sizes(backbone, size, embedding):
    closed_set = make_closed_set_net(NetworkConfig(backbone), 7, size, seed=0).eval()
    net = add_placeholders(closed_set, 4, seed=0).eval()
    assert closed_set.backbone(images(size=size)).shape == (3, embedding)
    assert closed_set.backbone.embedding_size == embedding
    assert closed_set(images(size=size)).shape == (3, 7)
    logits = net(images(size=size))
    assert logits.known.shape == (3, 7)
    assert logits.dummies.shape == (3, 4)


@pytest.mark.parametrize("backbone", sorted(BACKBONES))
def test_pre_and_then_post_is_the_whole_network(backbone):
    net = add_placeholders(make_closed_set_net(NetworkConfig(backbone), 5, 32, seed=0), 2, seed=0).eval()
    hidden = net.hidden(images())
    assert hidden.shape == (3, 128, 8, 8)
    whole, split = net(images()), net.logits(hidden)
    assert torch.equal(whole.known, split.known)
    assert torch.equal(whole.dummies, split.dummies)


def test_the_average_pooled_embedding_is_the_mean_over_the_flat_one():
    pooled = make_closed_set_net(NetworkConfig("classifier32"), 5, 32, seed=3).backbone.eval()
    flat = make_closed_set_net(NetworkConfig("classifier32_flat"), 5, 32, seed=3).backbone.eval()
    flat.load_state_dict(pooled.state_dict())
    means = flat(images()).view(3, 128, 16).mean(2)
    torch.testing.assert_close(pooled(images()), means, rtol=1e-4, atol=1e-5)
    last = images().contiguous(memory_format=torch.channels_last)
    flat_last = flat.to(memory_format=torch.channels_last)(last)
    torch.testing.assert_close(flat_last.view(3, 128, 16).mean(2), means, rtol=1e-4, atol=1e-5)


def test_classifier32_has_nine_convolutions_and_about_a_million_parameters():
    backbone = make_closed_set_net(NetworkConfig(), 10, 32, seed=0).backbone
    assert sum(isinstance(module, nn.Conv2d) for module in backbone.modules()) == 9
    widths = [(3, 64), (64, 64), (64, 128)] + 6 * [(128, 128)]
    convolutions = sum(9 * a * b for a, b in widths)
    norms = 2 * sum(b for _, b in widths)
    assert sum(parameter.numel() for parameter in backbone.parameters()) == convolutions + norms
    assert 0.95e6 < convolutions + norms < 1.05e6


def test_dropout_is_there_only_where_it_is_asked_for():
    def rates(rate: float) -> list[float]:
        net = make_closed_set_net(NetworkConfig(dropout=rate), 5, 32, seed=0)
        return [module.p for module in net.modules() if isinstance(module, nn.Dropout2d)]

    assert rates(0.0) == []
    assert rates(0.2) == [0.2, 0.2, 0.2]


def test_dropout_does_not_change_the_names_or_values_of_the_weights():
    plain, dropping = (make_closed_set_net(NetworkConfig(dropout=rate), 5, 32, seed=0) for rate in (0.0, 0.2))
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
    assert not torch.equal(first["dummies.weight"], other["dummies.weight"])
    assert not torch.equal(first["backbone.pre.stage1.block1.conv.weight"],
                           other["backbone.pre.stage1.block1.conv.weight"])  # fmt: skip


def test_placeholders_leave_the_closed_set_logits_as_they_are():
    closed_set = make_closed_set_net(NetworkConfig(), 5, 32, seed=1).eval()
    assert torch.equal(add_placeholders(closed_set, 3, seed=1).eval()(images()).known, closed_set(images()))


def test_a_mistyped_backbone_is_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"did you mean 'classifier32'\?"):
        make_closed_set_net(NetworkConfig("classifer32"), 5, 32, seed=0)
