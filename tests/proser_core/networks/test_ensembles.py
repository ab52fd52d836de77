"""An ensemble against its members, one by one."""

import numpy as np
import pytest
import torch
from small_tasks import tiny_net
from torch import nn

from proser_core.networks.ensembles import EnsembleNet
from proser_core.networks.folding import for_inference
from proser_core.networks.nets import PlaceholderNet

IMAGES = torch.randn(7, 3, 8, 8, generator=torch.Generator().manual_seed(3))


def members_of(count: int) -> list[PlaceholderNet]:
    """With 1, 2, 3, 1, ... dummies."""
    return [tiny_net(num_dummies=1 + seed % 3, seed=seed).eval() for seed in range(count)]


@pytest.mark.parametrize("count", [2, 3, 7])
@torch.no_grad()
def test_its_logits_are_bit_for_bit_the_mean_of_known_logits_and_of_best_dummies(count: int) -> None:
    members = members_of(count)
    net = EnsembleNet(members).eval()
    known, best = torch.zeros(7, 3), torch.zeros(7, 1)
    for member in members:
        logits = member(IMAGES)
        known += logits.known
        best += logits.dummies.max(dim=1, keepdim=True).values
    found = net(IMAGES)
    assert torch.equal(found.known, known / count)
    assert torch.equal(found.dummies, best / count)
    assert net.dummies_of_members == tuple(1 + seed % 3 for seed in range(count))


@torch.no_grad()
def test_its_known_logits_are_linear_in_the_embeddings_side_by_side() -> None:
    members = members_of(3)
    net = EnsembleNet(members).eval()
    embeddings = net.backbone(IMAGES)
    assert torch.equal(embeddings, torch.cat([member.backbone(IMAGES) for member in members], dim=1))
    assert embeddings.shape == (7, net.backbone.embedding_size)
    linear = embeddings.double() @ net.classifier.weight.double().T + net.classifier.bias.double()
    np.testing.assert_allclose(net(IMAGES).known, linear, atol=1e-6)


@torch.no_grad()
def test_each_norm_of_each_member_is_folded_for_serving() -> None:
    net = EnsembleNet(members_of(3)).eval()
    folded = for_inference(net, "cpu")
    assert not any(isinstance(module, nn.BatchNorm2d) for module in folded.modules())
    for found, expected in zip(folded(IMAGES), net(IMAGES), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
