"""GFROSR: six channels, quarters of a turn, and an auto-encoder that is looked at but not trained."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from own_trainings import CPU, digits, train_on_digits
from small_tasks import bit_equal

from proser_core.data.augmentation.batches import BatchSlice
from proser_core.generative import gfrosr
from proser_core.generative.autoencoder import AUTOENCODER
from proser_core.generative.gfrosr import (
    GFROSR,
    QUICK,
    ROTATION,
    SIX_CHANNELS,
    THREE_CHANNELS,
    GfrosrNet,
    draw_quarters,
    losses,
    turned,
)
from proser_core.generative.own_network import TaskShape
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.metrics import auroc

NARROW = {"autoencoder_width": 8, "width": 16}


def net_of(network=GFROSR, num_known: int = 3, **changes) -> GfrosrNet:
    torch.manual_seed(0)
    return GfrosrNet(TaskShape(num_known, 16), replace(network.schedules["quick"], **(NARROW | changes)))


def batch_of(count: int = 4, num_known: int = 3) -> BatchSlice:
    targets = torch.arange(count) % num_known
    images = torch.rand(count, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    return BatchSlice(images, targets, targets)


def test_the_first_convolution_sees_six_channels_as_classifier32_sees_three():
    net = GfrosrNet(TaskShape(5, 32), gfrosr.FULL)
    assert net.features[0].block1.conv.weight.shape == (64, 6, 3, 3)
    assert GfrosrNet(TaskShape(5, 32), THREE_CHANNELS.schedules["full"]).features[0].block1.conv.weight.shape == (
        64,
        3,
        3,
        3,
    )


def test_a_network_that_is_blind_to_the_reconstruction_is_one_of_three_channels():
    seeing, plain = net_of(SIX_CHANNELS).eval(), net_of(THREE_CHANNELS).eval()
    state = {name: value for name, value in seeing.state_dict().items() if not name.startswith("autoencoder.")}
    first = "features.0.block1.conv.weight"
    plain.load_state_dict(state | {first: state[first][:, :3]})
    with torch.no_grad():
        seeing.features[0].block1.conv.weight[:, 3:] = 0
    images = batch_of().images
    torch.testing.assert_close(seeing(images).known, plain(images).known)
    assert plain(images).dummies.shape == (4, 0)


def test_both_halves_of_what_is_seen_are_normalised_alike():
    net, images = net_of().eval(), batch_of().images
    mean, std = torch.tensor([0.4, 0.5, 0.3]).view(3, 1, 1), torch.tensor([0.2, 0.25, 0.3]).view(3, 1, 1)
    net.autoencoder.pixels.mean.copy_(mean)
    net.autoencoder.pixels.std.copy_(std)
    seen, errors = net.stacked(images)
    assert torch.equal(seen[:, :3], images)
    again = seen[:, 3:] * std + mean
    torch.testing.assert_close(again, net.autoencoder(images).reconstructed)
    for row, image in enumerate(images):
        torch.testing.assert_close(errors[row, 0], ((image * std + mean) - again[row]).square().mean())


def test_images_are_turned_counter_clockwise_by_quarters():
    images, quarters = batch_of(5).images, torch.tensor([0, 1, 2, 3, 1])
    found = turned(images, quarters)
    for image, result, number in zip(images, found, quarters, strict=True):
        expected = image
        for _ in range(number):
            expected = torch.stack([channel.T.flip(0) for channel in expected])
        assert torch.equal(result, expected)


def test_the_quarters_depend_on_seed_epoch_and_step_alone():
    drawn = draw_quarters(0, 1, 2, 400)
    assert np.array_equal(drawn, draw_quarters(0, 1, 2, 400))
    assert np.bincount(drawn, minlength=4).min() > 60
    assert not np.array_equal(drawn, draw_quarters(0, 2, 1, 400))


def test_the_loss_adds_the_turns_of_image_and_reconstruction_to_the_classes_of_upright_ones():
    net, batch, quarters = net_of().train(), batch_of(), torch.tensor([3, 0, 1, 2])
    found = losses(net, batch, quarters, rotation_weight=0.5)
    seen, _ = net.stacked(batch.images)
    by_class = F.cross_entropy(net.classifier(net.features(seen)), batch.targets)
    each = torch.stack([torch.rot90(image, int(number), (1, 2)) for image, number in zip(seen, quarters, strict=True)])
    by_turn = F.cross_entropy(net.turns(net.features(each)), quarters)
    torch.testing.assert_close(found["loss/total"], by_class + 0.5 * by_turn)


def test_without_weight_the_turns_do_not_touch_the_classes():
    gradients = []
    for quarters in ([0, 0, 0, 0], [3, 1, 2, 0]):
        net = net_of().train()
        losses(net, batch_of(), torch.tensor(quarters), rotation_weight=0.0)["loss/total"].backward()
        gradients.append(
            {name: weight.grad for name, weight in net.named_parameters() if name[:5] in ("class", "featu")}
        )
        gradients[-1] |= dict(net.features.named_buffers())
    assert bit_equal(*gradients)


def test_the_auto_encoder_gets_no_gradient_and_keeps_its_statistics():
    net = net_of().train()
    before = {name: value.clone() for name, value in net.autoencoder.state_dict().items()}
    losses(net, batch_of(), torch.tensor([0, 1, 2, 3]), 1.0)["loss/total"].backward()
    assert all(weight.grad is None for weight in net.autoencoder.parameters())
    assert all(weight.grad is not None for name, weight in net.named_parameters() if not name.startswith("auto"))
    assert bit_equal(before, net.autoencoder.state_dict())


@pytest.mark.parametrize(
    ("network", "reconstruction", "turns"),
    [(GFROSR, True, True), (SIX_CHANNELS, True, False), (ROTATION, False, True), (THREE_CHANNELS, False, False)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_controls_leave_out_reconstruction_or_turns_or_both(network, reconstruction, turns):
    net = net_of(network)
    assert (net.autoencoder is not None) == reconstruction
    assert (net.turns is not None) == turns
    assert network.needs == ((AUTOENCODER.name,) if reconstruction else ())
    assert net.eval()(batch_of().images).dummies.shape == (4, int(reconstruction))
    assert {name: schedule.epochs for name, schedule in network.schedules.items()} == {
        "full": 200,
        "quick": QUICK.epochs,
    }


@pytest.fixture(scope="module")
def trained():
    """An auto-encoder of two digits, and GFROSR with it."""
    task = digits(image_size=16)
    reconstructing = train_on_digits(AUTOENCODER, task=task, epochs=14, width=16, batch_size=16, lr=1e-2)
    parts = {AUTOENCODER.name: reconstructing.net}
    wide = {"width": 32, "autoencoder_width": 16}
    return task, reconstructing, train_on_digits(GFROSR, parts, task=task, epochs=10, batch_size=16, **wide)


@pytest.mark.slow
def test_two_digits_are_learnt_and_so_are_their_turns(trained):
    task, _, result = trained
    table = compute_logits(result.net, task.val.images, (task.mean, task.std), CPU)
    assert (table.known_predictions() == task.val.targets).mean() > 0.98
    assert result.trained.facts["turn_accuracy"] > 0.6


@pytest.mark.slow
def test_the_auto_encoder_inside_is_the_one_that_was_trained(trained):
    _, reconstructing, result = trained
    assert bit_equal(reconstructing.net.state_dict(), result.net.autoencoder.state_dict())


@pytest.mark.slow
def test_unknown_digits_are_reconstructed_worse_and_noise_not_at_all(trained):
    task, _, result = trained
    noise = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8)
    known, unknown, of_noise = (
        compute_logits(result.net, images, (task.mean, task.std), CPU).dummies[:, 0]
        for images in (task.val.images, task.development.images, noise)
    )
    assert auroc(known, unknown) > 0.6
    assert of_noise.mean() > 3 * known.mean()  # it has not become the identity


@pytest.mark.slow
def test_validation_images_and_development_unknowns_are_shown_with_their_reconstructions(trained):
    task, reconstructing, _ = trained
    pictures = reconstructing.trained.pictures
    assert len(pictures) == 2
    for (originals, again), part in zip(pictures.values(), (task.val, task.development), strict=True):
        assert originals.shape == (8, 16, 16, 3)
        assert all(any(np.array_equal(original, image) for image in part.images) for original in originals)
        assert np.abs(originals.astype(float) - again).mean() < originals.std()
