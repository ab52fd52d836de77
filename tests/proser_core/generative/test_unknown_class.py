"""Classifiers of pixels: one class against the rest, and with a class of logit 0."""

import math
from dataclasses import replace

import pytest
import torch
from own_trainings import CPU, digits, plain_training, train_on_digits

from proser_core.generative.convolutions import Classifier32
from proser_core.generative.one_vs_rest import ONE_VS_REST, QUICK, one_vs_rest_loss
from proser_core.generative.own_network import TaskShape
from proser_core.generative.pixels import PixelBatches
from proser_core.generative.unknown_class import UnknownClassNet, train_with_unknown, unknown_class_loss
from proser_core.recognition.logits import compute_logits

LOGITS = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TARGETS = torch.tensor([0, 2, 1, 2])


def test_the_one_vs_rest_loss_is_that_of_one_logit_after_another():
    losses = []
    for row, target in zip(LOGITS.tolist(), TARGETS.tolist(), strict=True):
        losses += [math.log(1 + math.exp(-value if k == target else value)) for k, value in enumerate(row)]
    assert float(one_vs_rest_loss(LOGITS, TARGETS)) == pytest.approx(sum(losses) / 12)


def test_the_loss_with_a_class_of_logit_0_is_that_of_one_softmax_after_another():
    def minus_log_of(row, which):
        exponentials = [math.exp(value) for value in [*row, 0.0]]
        return -math.log(exponentials[which] / sum(exponentials))

    real = [minus_log_of(row, target) for row, target in zip(LOGITS.tolist(), TARGETS.tolist(), strict=True)]
    made = [minus_log_of(row, 3) for row in (LOGITS[:2] * 2).tolist()]
    loss = unknown_class_loss(LOGITS, TARGETS, LOGITS[:2] * 2)
    assert float(loss) == pytest.approx(sum(real) / 4 + sum(made) / 2)


def test_one_vs_rest_learns_two_digits_and_gives_each_its_own_sign():
    net = train_on_digits(ONE_VS_REST, width=16, epochs=2, least_steps=30, dropout=0.0).net
    pixels, targets = PixelBatches(plain_training(QUICK), "any").first(500)
    logits = net(pixels)
    own = logits.gather(1, targets[:, None])[:, 0]
    assert float((logits.argmax(dim=1) == targets).float().mean()) > 0.98
    assert float((own > 0).float().mean()) > 0.9


def test_made_images_that_differ_become_unknown_and_training_images_keep_their_class():
    torch.manual_seed(0)
    net = Classifier32(2, 8, width=16)
    pixels, targets = PixelBatches(plain_training(QUICK), "any").first(500)
    made = 1 - pixels[:64]
    train_with_unknown(net, made, plain_training(replace(QUICK, epochs=2, least_steps=30)), "test")
    with torch.no_grad():
        logits, of_made = net.eval()(pixels), net(made)
    assert float(((logits.argmax(dim=1) == targets) & (logits.amax(dim=1) > 0)).float().mean()) > 0.95
    assert float((of_made.amax(dim=1) < 0).float().mean()) > 0.9


def test_the_network_takes_images_as_a_task_normalises_them_and_sees_their_pixels():
    task = digits()
    net = UnknownClassNet(TaskShape(2, 8), QUICK)
    net.pixels.fill(task)
    logits = compute_logits(net, task.val.images, (task.mean, task.std), CPU)
    pixels = torch.from_numpy(task.val.images / 255.0).float().permute(0, 3, 1, 2)
    torch.testing.assert_close(torch.tensor(logits.known), net.classifier(pixels).detach(), rtol=1e-3, atol=1e-4)
    assert logits.dummies.shape == (len(task.val), 1)
    assert not logits.dummies.any()


def test_an_epoch_of_more_steps_than_a_pass_takes_further_passes_and_none_twice():
    batches = PixelBatches(plain_training(QUICK), "any")
    one_pass = len(digits().train) // 64
    drawn = [list(batches.epoch(epoch)) for epoch in range(2)]
    assert [len(each) for each in drawn] == [QUICK.least_steps] * 2
    assert one_pass < QUICK.least_steps
    sums = {float(batch.pixels.sum()) for epoch in drawn for batch in epoch[:one_pass]}
    assert len(sums) == 2 * one_pass


@pytest.mark.parametrize("count", [100, 10_000])
def test_the_first_images_are_those_of_the_first_pass_with_those_that_fill_no_batch(count: int) -> None:
    batches = PixelBatches(plain_training(replace(QUICK, least_steps=0)), "any")
    in_batches, train = torch.cat([batch.pixels for batch in batches.epoch(0)]), digits().train
    pixels, targets = batches.first(count)
    whole = min(count, len(in_batches))
    assert torch.equal(pixels[:whole], in_batches[:whole])
    given = {(image.tobytes(), int(target)) for image, target in zip(train.images, train.targets, strict=True)}
    images = (pixels * 255).round().byte().permute(0, 2, 3, 1).numpy()
    found = [(image.tobytes(), int(target)) for image, target in zip(images, targets, strict=True)]
    assert len(found) == len(set(found)) == min(count, len(train))
    assert set(found) <= given
