import copy
import io
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from proser_core.config import DataConfig, FinetuneConfig, PretrainConfig
from proser_core.data.batches import TrainingBatches
from proser_core.data.tasks import Labelled
from proser_core.errors import TrainingError
from proser_core.learning.fit import fit, lr_factor
from proser_core.learning.objectives import CrossEntropyObjective, ProserObjective
from proser_core.learning.step import Arithmetic
from proser_core.recognition.logits import compute_logits

from .helpers import (
    CPU,
    NORMALISATION,
    bit_equal,
    finetune_config,
    random_images,
    tiny_closed_set_net,
    tiny_net,
    training_batches,
)

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
        fit(objective, training_batches(seed=seed), finetune_config(**config), arithmetic,
            seed=seed, report=record, resume=resume)  # fmt: skip
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


@pytest.mark.parametrize("schedule", ["constant", "one_cycle", "cosine"])
@pytest.mark.parametrize("stop_after", [0, 1])
def test_a_resumed_run_equals_one_that_never_stopped(schedule, stop_after):
    whole, record = finetune(schedule=schedule)
    _, stopped = finetune(schedule=schedule, stop_after=stop_after)
    assert len(stopped.states) == stop_after + 1
    resumed, rest = finetune(schedule=schedule, resume=stopped.states[-1], net_seed=99)
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
        objective = ProserObjective(tiny_net(), finetune_config(), 0)

        def report(epoch, metrics, state, objective=objective, scores=scores):
            if scores:
                compute_logits(objective.net, random_images(4), NORMALISATION, CPU)

        fit(objective, training_batches(), finetune_config(), FP32, seed=0, report=report)
        results.append(objective.state_dict())
    assert bit_equal(*results)


@pytest.mark.parametrize("kind", ["proser", "cross_entropy"])
def test_training_learns_classes_that_differ_by_colour(kind):
    images = random_images(48) // 2
    targets = np.arange(48) % 3
    images[np.arange(48), :, :, targets] += 120
    config = finetune_config(epochs=8, lr=0.05, batch_size=16)
    batches = TrainingBatches(
        Labelled(images, targets), DataConfig(image_size=8, padding=1), NORMALISATION,
        batch_size=16, seed=0, purpose="finetune", device=CPU,
    )  # fmt: skip
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
    with pytest.raises(TrainingError, match=r"in epoch 0; the loss must stay finite\. Lower the learning rate"):
        finetune(lr=1e20)
    objective = CrossEntropyObjective(tiny_closed_set_net())
    with torch.no_grad():
        objective.net.classifier.bias[0] = torch.nan
    record = Record()
    with pytest.raises(TrainingError, match="loss/closed_set is nan in epoch 0"):
        fit(objective, training_batches(), finetune_config(), FP32, seed=0, report=record)
    assert record.metrics == []


def factors(schedule: str, total: int) -> list[float]:
    return [lr_factor(FinetuneConfig(schedule=schedule), step, total) for step in range(total)]


def test_a_constant_schedule_stays_at_the_peak():
    assert factors("constant", 7) == [1.0] * 7


@pytest.mark.parametrize(("schedule", "warmup"), [("one_cycle", 30), ("cosine", 5)])
def test_a_schedule_warms_up_linearly_and_comes_down_by_a_cosine(schedule, warmup):
    values = factors(schedule, 100)
    assert values[:warmup] == pytest.approx([(step + 1) / warmup for step in range(warmup)])
    down = [0.5 * (1 + math.cos(math.pi * step / (100 - warmup))) for step in range(100 - warmup)]
    assert values[warmup:] == pytest.approx(down)


@given(st.sampled_from(["one_cycle", "cosine"]), st.integers(1, 500))
def test_a_schedule_rises_to_the_peak_once_and_never_above(schedule, total):
    values = factors(schedule, total)
    peak = values.index(max(values))
    assert max(values) == 1.0
    assert min(values) > 0
    assert values[: peak + 1] == sorted(values[: peak + 1])
    assert values[peak:] == sorted(values[peak:], reverse=True)
