"""C2AE: pairs of classes, the decoder's loss, and what two digits teach it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from own_trainings import CPU, digits, train_on_digits
from small_tasks import bit_equal

from proser_core.data.augmentation.batches import BatchSlice
from proser_core.generative.c2ae import C2AE, CLASSIFIER
from proser_core.generative.c2ae_network import C2aeNet, CodeClassifier, decoder_losses, partners_of_other_classes
from proser_core.generative.gpd import right_and_wrong
from proser_core.generative.own_network import TaskShape
from proser_core.recognition.logits import compute_logits
from proser_core.recognition.metrics import auroc
from proser_core.recognition.scores.own_networks import SmallestError


def small_net(num_known: int = 3) -> C2aeNet:
    """Fresh, but with a decoder that heeds the class."""
    torch.manual_seed(0)
    net = C2aeNet(TaskShape(num_known, 16), width=8)
    for layer in (net.decoder.film.gamma, net.decoder.film.beta):
        torch.nn.init.normal_(layer.weight)
    return net.eval()


def batch_of(targets: list[int], seed: int = 0) -> BatchSlice:
    images = torch.rand(len(targets), 3, 16, 16, generator=torch.Generator().manual_seed(seed))
    return BatchSlice(images, torch.tensor(targets), torch.tensor(targets))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=9), st.randoms(use_true_random=False))
def test_a_partner_is_the_next_of_another_class_in_the_cycle(targets, random):
    order = list(range(len(targets)))
    random.shuffle(order)
    partners, weights = partners_of_other_classes(torch.tensor(targets), torch.tensor(order))
    for image, target in enumerate(targets):
        place = order.index(image)
        others = [other for other in order[place:] + order[:place] if targets[other] != target]
        assert weights[image] == bool(others)
        assert not others or partners[image] == others[0]


def test_the_loss_is_that_of_the_image_under_its_class_and_of_another_image_under_the_other_class():
    net, batch, order = small_net(), batch_of([0, 2, 1, 1]), torch.tensor([2, 3, 0, 1])
    found = decoder_losses(net, batch, order, right_weight=0.9)
    partners, _ = partners_of_other_classes(batch.targets, order)
    right, wrong = [], []
    for image, target, partner in zip(batch.images, batch.targets, partners, strict=True):
        code = net.closed_set.codes(image[None])
        other, other_class = batch.images[partner], batch.targets[partner]
        right.append((image - net.decoder(code, target[None])[0]).abs().mean())
        wrong.append((other - net.decoder(code, other_class[None])[0]).abs().mean())
    expected = 0.9 * sum(right) / 4 + 0.1 * sum(wrong) / 4
    torch.testing.assert_close(found["loss/total"], expected)


def test_a_batch_of_one_class_has_no_loss_under_a_wrong_one():
    found = decoder_losses(small_net(), batch_of([1, 1, 1]), torch.arange(3), right_weight=0.9)
    assert found["loss/wrong_class"] == 0
    torch.testing.assert_close(found["loss/total"], 0.9 * found["loss/right_class"])


def test_no_gradient_reaches_the_closed_set_part():
    net = small_net().train()
    before = {name: value.clone() for name, value in net.closed_set.state_dict().items()}
    decoder_losses(net, batch_of([0, 1, 2]), torch.arange(3), 0.9)["loss/total"].backward()
    assert all(weight.grad is None for weight in net.closed_set.parameters())
    assert all(weight.grad is not None for weight in net.decoder.parameters())
    assert bit_equal(before, net.closed_set.state_dict())


def test_the_dummies_are_the_errors_under_each_class_in_turn():
    net, images = small_net(), batch_of([0] * 5).images
    with torch.no_grad():
        found = net(images)
        for row, image in enumerate(images):
            code = net.closed_set.codes(image[None])
            for known_class in range(3):
                decoded = net.decoder(code, torch.tensor([known_class]))[0]
                torch.testing.assert_close(found.dummies[row, known_class], (image - decoded).abs().mean())
    torch.testing.assert_close(found.known, net.closed_set(images))


def test_classes_in_another_order_have_their_errors_in_that_order_and_the_same_score():
    net, images, order = small_net(), batch_of([0] * 5).images, torch.tensor([2, 0, 1])
    before = net(images)
    with torch.no_grad():
        for layer in (net.decoder.film.gamma, net.decoder.film.beta):
            layer.weight.copy_(layer.weight[:, order])
    after, score = net(images), SmallestError()
    torch.testing.assert_close(after.dummies, before.dummies[:, order])
    torch.testing.assert_close(score.in_torch(*after), score.in_torch(*before))


def test_errors_under_the_own_and_the_next_class_are_told_apart():
    errors, targets = np.arange(12.0).reshape(4, 3), np.array([0, 1, 2, 0])
    right, wrong = right_and_wrong(errors, targets)
    assert right.tolist() == [0, 4, 8, 9]
    assert wrong.tolist() == [1, 5, 6, 10]


@pytest.mark.parametrize(("size", "served"), [(8, False), (16, True), (24, False), (28, True), (64, True)])
def test_images_that_cannot_be_halved_four_times_are_refused(size, served):
    reason = C2AE.refusal(TaskShape(3, size))
    assert (not reason) == served
    if not served:
        assert f"{size} pixels" in reason
        assert "32" in reason


def test_the_decoder_is_trained_on_images_as_they_are():
    task, seen = digits(image_size=16), []

    def watched(shape, schedule):
        net = C2AE.make(shape, schedule)
        net.pixels.register_forward_hook(lambda module, given, pixels: seen.append((255 * pixels).round().byte()))
        return net

    fields = {"width": 8, "batch_size": 16, "epochs": 1}
    closed_set = CodeClassifier(TaskShape(2, 16), width=8)
    train_on_digits(replace(C2AE, make=watched), {CLASSIFIER.name: closed_set}, task=task, **fields)
    known = {np.ascontiguousarray(image).tobytes() for part in (task.train, task.val) for image in part.images}
    assert len(seen) > len(task.train) // 16
    assert {image.tobytes() for pixels in seen for image in pixels.permute(0, 2, 3, 1).contiguous().numpy()} <= known


@pytest.fixture(scope="module")
def trained():
    """C2AE of two digits, with its closed-set part as that was trained, and its outputs for digits by part."""
    task = digits(image_size=16)
    closed_set = train_on_digits(CLASSIFIER, task=task, epochs=4, width=16, batch_size=16).net
    result = train_on_digits(C2AE, {CLASSIFIER.name: closed_set}, task=task, epochs=18, width=16, batch_size=16)
    tables = {
        part: compute_logits(result.net, getattr(task, part).images, (task.mean, task.std), CPU)
        for part in ("val", "development")
    }
    return task, closed_set, result, tables


@pytest.mark.slow
def test_a_digit_is_decoded_better_under_its_class_than_under_the_other(trained):
    task, *_, tables = trained
    right, wrong = right_and_wrong(tables["val"].dummies, np.asarray(task.val.targets))
    assert right.mean() < 0.6 * wrong.mean()
    assert auroc(right, wrong) > 0.95


def test_under_the_other_class_comes_an_image_of_that_class(trained):
    task, _, result, _ = trained
    (shown,) = result.trained.pictures.values()
    originals, _, others = shown.astype(float)
    means = [np.asarray(task.train.images)[task.train.targets == k].mean(axis=0) for k in range(2)]
    nearer = [
        np.abs(other - means[1 - target]).mean() < np.abs(other - original).mean()
        for original, other, target in zip(originals, others, [0, 1] * 4, strict=True)
    ]
    assert np.mean(nearer) > 0.8


def test_unknown_digits_have_larger_errors_under_every_class(trained):
    *_, tables = trained
    score = SmallestError()
    assert auroc(score(tables["val"]), score(tables["development"])) > 0.8


def test_the_threshold_of_the_method_lies_between_the_errors_under_the_right_and_a_wrong_class(trained):
    facts = trained[2].trained.facts
    assert facts["error_under_right_class"] < facts["threshold"] < facts["error_under_wrong_class"]


def test_the_closed_set_part_stays_what_its_own_training_made(trained):
    _, closed_set, result, _ = trained
    assert bit_equal(closed_set.state_dict(), result.net.closed_set.state_dict())
