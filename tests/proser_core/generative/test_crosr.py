"""DHRNet and LadderNet: their shapes, what reconstruction does to the classifier, and what two digits teach them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from own_trainings import digits, train_on_digits
from torch import nn

from proser_core.generative.crosr import DHRNET, FULL, LADDERNET, QUICK
from proser_core.generative.own_network import TaskShape
from proser_core.generative.pixels import first_of_each_class
from proser_core.generative.vgg import ReconstructingVgg

TINY = replace(QUICK, channels=(4, 6, 8), hidden=12, latent=5)


def network(has_bottlenecks: bool = True, size: int = 32) -> ReconstructingVgg:
    torch.manual_seed(0)
    return ReconstructingVgg(TaskShape(3, size), TINY, has_bottlenecks=has_bottlenecks)


@pytest.mark.parametrize("size", [8, 16, 32, 64])
@pytest.mark.parametrize("has_bottlenecks", [True, False])
def test_logits_latent_features_and_reconstruction_have_their_shapes(size: int, has_bottlenecks: bool) -> None:
    net, images = network(has_bottlenecks, size).eval(), torch.randn(2, 3, size, size)
    known, dummies = net(images)
    assert known.shape == (2, 3)
    assert dummies.shape == (2, 3 * 5 if has_bottlenecks else 0)
    again, reconstruction = net.with_reconstruction(images)
    assert torch.equal(again, known)
    assert reconstruction.shape == images.shape


@pytest.mark.parametrize(("size", "side"), [(24, 3), (40, 4), (72, 4), (88, 4)])
def test_a_last_stage_larger_than_four_is_averaged_to_four(size: int, side: int) -> None:
    dense = next(each for each in network(size=size).classifier if isinstance(each, nn.Linear))
    assert dense.in_features == 8 * side**2
    assert network(size=size).eval()(torch.randn(1, 3, size, size)).known.shape == (1, 3)


def test_the_full_network_has_ninety_six_latent_features_and_eleven_layers_with_weights() -> None:
    net = ReconstructingVgg(TaskShape(10, 32), FULL, has_bottlenecks=True).eval()
    assert net(torch.zeros(1, 3, 32, 32)).dummies.shape == (1, 96)
    layers = [*net.stages.modules(), *net.classifier.modules(), net.logits]
    assert sum(isinstance(each, nn.Conv2d | nn.Linear) for each in layers) == 11


def test_latent_features_are_the_largest_values_of_each_channel_deepest_stage_first() -> None:
    net, images = network().eval(), torch.randn(2, 3, 32, 32)
    features, expected = images, []
    for stage, bottleneck in zip(net.stages, net.bottlenecks, strict=True):
        features = stage(features)
        latent = F.relu(F.conv2d(features, bottleneck.squeeze.weight, bottleneck.squeeze.bias, padding=1))
        expected.insert(0, torch.stack([channel.flatten(1).max(1).values for channel in latent.unbind(1)], 1))
    torch.testing.assert_close(net(images).dummies, torch.cat(expected, 1))


def test_a_reconstruction_is_that_of_the_equations() -> None:
    """g_2 = relu(up(h_3)), g_1 = relu(up(h_2 + g_2)), g_0 = up(h_1 + g_1)."""
    net, images = network().eval(), torch.randn(2, 3, 32, 32)
    x1 = net.stages[0](images)
    x2 = net.stages[1](x1)
    x3 = net.stages[2](x2)
    h1, h2, h3 = (each.expand(F.relu(each.squeeze(x))) for each, x in zip(net.bottlenecks, (x1, x2, x3), strict=True))
    g2 = F.relu(net.enlarge[2](h3))
    g1 = F.relu(net.enlarge[1](h2 + g2))
    torch.testing.assert_close(net.with_reconstruction(images)[1], net.enlarge[0](h1 + g1))


def test_without_the_reconstruction_the_classifier_has_the_gradients_of_a_plain_network() -> None:
    net, images, targets = network().eval(), torch.randn(4, 3, 32, 32), torch.tensor([0, 1, 2, 0])

    def gradients(loss: torch.Tensor) -> list[torch.Tensor]:
        net.zero_grad()
        loss.backward()
        return [each.grad.clone() for each in (*net.stages.parameters(), *net.logits.parameters())]

    logits, reconstruction = net.with_reconstruction(images)
    beside = gradients(F.cross_entropy(logits, targets) + 0.0 * F.mse_loss(reconstruction, images))
    plain = gradients(F.cross_entropy(net(images).known, targets))
    assert all(torch.equal(one, other) for one, other in zip(beside, plain, strict=True))


def test_a_reconstruction_of_no_weight_teaches_the_decoder_nothing() -> None:
    fields = {"reconstruction_weight": 0.0, "weight_decay": 0.0, "channels": (4, 6, 8), "hidden": 12, "epochs": 1}
    untrained = DHRNET.fresh(TaskShape(2, 8), replace(QUICK, **fields), seed=0)
    trained = train_on_digits(DHRNET, **fields).net
    for name, value in untrained.enlarge.named_parameters("enlarge"):
        assert torch.equal(value, trained.get_parameter(name)), name
    assert not torch.equal(untrained.logits.weight, trained.logits.weight)


@pytest.mark.parametrize("own", [DHRNET, LADDERNET], ids=lambda own: own.name)
def test_two_digits_are_told_apart_and_reconstructed(own) -> None:
    task = digits()
    result = train_on_digits(own, batch_size=32, channels=(8, 8, 16), convolutions=(1, 1, 1), hidden=32, epochs=12)
    pictures = result.trained.pictures["training images above their reconstructions"]
    assert pictures.shape == (2, 8, 8, 8, 3)
    np.testing.assert_array_equal(pictures[0], task.train.images[first_of_each_class(task.train)])
    assert result.trained.facts["reconstruction_error"] < 0.9  # the variance of the normalised images is 1
    images = torch.from_numpy(np.array(task.val.images)).permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(each).view(3, 1, 1) for each in (task.mean, task.std))
    predictions = result.net((images - mean) / std).known.argmax(1).numpy()
    assert (predictions == task.val.targets).mean() >= 0.9


def test_images_that_cannot_be_halved_three_times_are_refused() -> None:
    assert "cannot be halved 3 times" in DHRNET.refusal(TaskShape(10, 28))
    assert not DHRNET.refusal(TaskShape(10, 32))
