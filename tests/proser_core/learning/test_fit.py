import copy
import io
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from small_tasks import (
    CPU,
    NORMALISATION,
    batches_of,
    bit_equal,
    finetune_config,
    random_images,
    tiny_closed_set_net,
    tiny_net,
    training_batches,
)
from torch import nn

from proser_core.config import PretrainConfig
from proser_core.data.tasks import Labelled
from proser_core.errors import TrainingError
from proser_core.learning.fit import fit
from proser_core.learning.mixup import MixDraw
from proser_core.learning.objectives import CrossEntropyObjective, ProserObjective
from proser_core.learning.step import Arithmetic
from proser_core.recognition.logits import compute_logits

FP32 = Arithmetic(CPU, bf16=False)
BF16 = Arithmetic(CPU, bf16=True)


class Record:
    """Keeps what was reported, states as a file would: written at once."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.metrics, self.states, self.stop_after = [], [], stop_after

    def __call__(self, epoch, metrics, state) -> None:
        buffer = io.BytesIO()
        torch.save(state, buffer)
        buffer.seek(0)
        self.metrics.append(metrics)
        self.states.append(torch.load(buffer, weights_only=True))
        if epoch == self.stop_after:
            raise KeyboardInterrupt


def finetune(*, seed=0, resume=None, stop_after=None, arithmetic=FP32, net_seed=0, **config):
    objective = ProserObjective(tiny_net(dropout=0.3, seed=net_seed), finetune_config(**config), seed)
    record = Record(stop_after)
    try:
        given = objective, training_batches(seed=seed), finetune_config(**config), arithmetic
        fit(*given, seed=seed, report=record, resume=resume)
    except KeyboardInterrupt:
        assert stop_after is not None
    return objective, record


@pytest.mark.parametrize("arithmetic", [FP32, BF16])
def test_the_same_seed_gives_the_same_metrics_to_the_last_digit(arithmetic):
    first, record = finetune(arithmetic=arithmetic)
    torch.manual_seed(12345)
    again, record_again = finetune(arithmetic=arithmetic)
    assert record.metrics == record_again.metrics
    assert bit_equal(first.state_dict(), again.state_dict())
    _, other = finetune(seed=1, arithmetic=arithmetic)
    assert other.metrics != record.metrics


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("stop_after", [None, 0])
def test_torchs_generator_and_choice_of_algorithms_are_as_before(deterministic, stop_after, monkeypatch):
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", deterministic)
    objective = CrossEntropyObjective(tiny_closed_set_net(dropout=0.5))
    before = torch.get_rng_state()
    with suppress(KeyboardInterrupt):
        fit(objective, training_batches(), finetune_config(), FP32, seed=0, report=Record(stop_after))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.backends.cudnn.deterministic == deterministic


def test_the_seed_of_a_training_draws_its_dropout():
    """Objective and batches have seeds of their own, which are the same here."""
    losses = []
    for seed in (0, 0, 1):
        objective, record = CrossEntropyObjective(tiny_closed_set_net(dropout=0.5)), Record()
        fit(objective, training_batches(), finetune_config(epochs=1), FP32, seed=seed, report=record)
        losses.append(record.metrics[0]["loss/closed_set"])
    assert losses[0] == losses[1] != losses[2]


def dropped_losses() -> list[float]:
    """Of three epochs that differ in nothing but their dropout."""
    same, record = Labelled(np.repeat(random_images(1), 8, axis=0), np.zeros(8, int)), Record()
    config = PretrainConfig(epochs=3, batch_size=8, lr=1e-30, schedule="constant")
    objective = CrossEntropyObjective(tiny_closed_set_net(dropout=0.5))
    fit(objective, batches_of(same, padding=0, flip=False), config, FP32, seed=0, report=record)
    return [metrics["loss/closed_set"] for metrics in record.metrics]


def test_dropout_differs_from_epoch_to_epoch_and_from_rank_to_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    losses = dropped_losses()
    monkeypatch.setattr("proser_core.learning.fit.current_world", lambda: (1, 1))
    assert len({*losses, *dropped_losses()}) == 6


def test_mixtures_are_drawn_anew_in_each_epoch() -> None:
    asked = []

    class Noted(ProserObjective):
        def draws(self, *given: Any) -> MixDraw:
            asked.append(super().draws(*given))
            return asked[-1]

    config = finetune_config()
    fit(Noted(tiny_net(), config, 0), training_batches(), config, FP32, seed=0, report=Record())
    twin = ProserObjective(tiny_net(), config, 0)
    for epoch, found in enumerate(asked):
        for values, expected in zip(found, twin.draws(epoch, 5, 8, CPU), strict=True):
            assert torch.equal(values, expected)
    assert len({*torch.cat([each.mix_lambda for each in asked]).tolist()}) == 15


@pytest.mark.parametrize(
    ("optimizer", "schedule", "stop_after", "averaging"),
    [
        ("sgd", "constant", 0, 0.0),
        ("sgd", "one_cycle", 1, 0.8),
        ("muon", "cosine", 0, 0.8),
        ("muon", "cosine_restarts", 1, 0.0),
    ],
)
def test_a_resumed_run_equals_one_that_never_stopped(optimizer, schedule, stop_after, averaging):
    options = {"schedule": schedule, "averaging": averaging, "optimizer": optimizer, "start": "scratch"}
    whole, record = finetune(**options)
    _, stopped = finetune(**options, stop_after=stop_after)
    assert len(stopped.states) == stop_after + 1
    resumed, rest = finetune(**options, resume=stopped.states[-1], net_seed=99)
    assert bit_equal(whole.state_dict(), resumed.state_dict())
    assert stopped.metrics + rest.metrics == record.metrics


def test_a_finished_run_that_is_resumed_does_nothing_more():
    whole, record = finetune()
    resumed, rest = finetune(resume=record.states[-1], net_seed=99)
    assert rest.metrics == []
    assert bit_equal(whole.state_dict(), resumed.state_dict())


def test_a_net_that_was_scored_while_reporting_trains_on_as_if_it_was_not():
    results = []
    for scores in (False, True):
        net, config = tiny_net(), finetune_config(averaging=0.8)
        depthwise = nn.Conv2d(6, 6, 1, groups=6)  # whose weights torch copies whenever they are given a layout
        nn.init.ones_(depthwise.weight)
        net.get_submodule("backbone.stages.first").append(depthwise)
        objective = ProserObjective(net, config, 0)

        def report(epoch, metrics, state, net=net, scores=scores):
            if scores:
                compute_logits(net, random_images(4), NORMALISATION, CPU)

        fit(objective, training_batches(), config, FP32, seed=0, report=report)
        results.append(objective.state_dict())
    assert bit_equal(*results)


@pytest.mark.parametrize("optimizer", ["sgd", "muon"])
@pytest.mark.parametrize("kind", ["proser", "cross_entropy"])
def test_training_learns_classes_that_differ_by_colour(kind, optimizer):
    images = random_images(48) // 2
    targets = np.arange(48) % 3
    images[np.arange(48), :, :, targets] += 120
    lr = {"sgd": 0.05, "muon": 0.02}[optimizer]
    config = finetune_config(epochs=8, lr=lr, batch_size=16, optimizer=optimizer, start="scratch")
    batches = batches_of(Labelled(images, targets), batch_size=16, padding=1)
    objective = (
        ProserObjective(tiny_net(), config, 0) if kind == "proser" else CrossEntropyObjective(tiny_closed_set_net())
    )
    record = Record()
    fit(objective, batches, config, FP32, seed=0, report=record)
    first, last = record.metrics[0], record.metrics[-1]
    assert last["loss/closed_set"] < first["loss/closed_set"]
    assert last["train/accuracy"] > max(0.9, first["train/accuracy"])


def test_metrics_are_means_over_the_images_of_an_epoch():
    objective = CrossEntropyObjective(tiny_closed_set_net())
    twin = copy.deepcopy(objective).train()
    record = Record()
    config = PretrainConfig(epochs=1, batch_size=8, lr=1e-30, schedule="constant")
    fit(objective, training_batches(), config, FP32, seed=0, report=record)
    losses, right = [], 0
    for batch in training_batches().epoch(0):
        logits = twin.net(batch.images)
        losses += torch.nn.functional.cross_entropy(logits, batch.targets, reduction="none").tolist()
        right += int((logits.argmax(1) == batch.targets).sum())
    assert record.metrics[0]["loss/closed_set"] == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert record.metrics[0]["train/accuracy"] == pytest.approx(right / len(losses))


def test_a_loss_that_is_not_finite_ends_the_run_and_reports_nothing():
    with pytest.raises(
        TrainingError, match=r"in epoch 0; the loss must stay finite\. Lower the learning rate or the weights"
    ):
        finetune(lr=1e20)
    objective = CrossEntropyObjective(tiny_closed_set_net())
    with torch.no_grad():
        objective.net.classifier.bias[0] = torch.nan
    record = Record()
    with pytest.raises(TrainingError, match=r"loss/closed_set is nan in epoch 0; .* Lower the learning rate$"):
        fit(objective, training_batches(), finetune_config(), FP32, seed=0, report=record)
    assert record.metrics == []


def one_step_epochs(**config):
    """Plain training whose epochs are one step each, so that the states show the weights after every step."""
    config = PretrainConfig(**({"epochs": 5, "batch_size": 40, "lr": 0.1, "schedule": "constant"} | config))
    objective = CrossEntropyObjective(tiny_closed_set_net(), config.label_smoothing)
    first = {name: value.clone() for name, value in objective.state_dict().items()}
    record = Record()
    fit(objective, training_batches(batch_size=40), config, FP32, seed=0, report=record)
    return first, [state["objective"] for state in record.states], objective.state_dict()


def test_averaged_weights_follow_the_textbook_recursion():
    first, live, result = one_step_epochs(averaging=0.7)
    for name, value in result.items():
        expected = first[name].double()
        for state in live:
            expected = 0.7 * expected + 0.3 * state[name].double()
        if value.is_floating_point():
            torch.testing.assert_close(value.double(), expected, rtol=1e-5, atol=1e-6)
        else:
            assert torch.equal(value, live[-1][name])
    assert not torch.equal(result["net.classifier.weight"], live[-1]["net.classifier.weight"])


def test_averaging_does_not_disturb_the_training_and_none_leaves_the_last_weights():
    _, plain, result = one_step_epochs()
    _, averaged, _ = one_step_epochs(averaging=0.7)
    assert all(bit_equal(*pair) for pair in zip(plain, averaged, strict=True))
    assert bit_equal(result, plain[-1])


@pytest.mark.parametrize("nesterov", [False, True])
def test_a_step_is_the_textbook_step_of_momentum(nesterov):
    options = {"momentum": 0.8, "weight_decay": 0.01, "nesterov": nesterov}
    first, live, _ = one_step_epochs(**options)
    twin = CrossEntropyObjective(tiny_closed_set_net()).train()
    twin.load_state_dict(first)
    velocity = {name: torch.zeros_like(value) for name, value in twin.named_parameters()}
    for epoch, expected in enumerate(live):
        (batch,) = training_batches(batch_size=40).epoch(epoch)
        twin.zero_grad()
        twin(batch.images, batch.targets, batch.global_targets, None).total.backward()
        with torch.no_grad():
            for name, weight in twin.named_parameters():
                gradient = weight.grad + 0.01 * weight
                velocity[name] = 0.8 * velocity[name] + gradient
                weight -= 0.1 * (gradient + 0.8 * velocity[name] if nesterov else velocity[name])
                torch.testing.assert_close(weight, expected[name], rtol=1e-4, atol=1e-5)
