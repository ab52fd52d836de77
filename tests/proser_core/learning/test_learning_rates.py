"""The learning rate of each step."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_tasks import CPU, training_batches

from proser_core.config import FinetuneConfig, PretrainConfig
from proser_core.learning.fit import fit, lr_factor
from proser_core.learning.objectives import LossTerms
from proser_core.learning.step import Arithmetic


class Slope(torch.nn.Module):
    """One weight, which is its own loss: each step moves it by the learning rate."""

    def __init__(self) -> None:
        super().__init__()
        self.place, self.places = torch.nn.Parameter(torch.zeros(())), list[float]()

    def draws(self, *given: Any) -> None:
        """None."""

    def forward(self, *given: Any) -> LossTerms:
        self.places.append(float(self.place.detach()))
        return LossTerms(self.place, {"loss": torch.stack([self.place.detach(), torch.ones(())])})


@pytest.mark.parametrize("schedule", ["constant", "one_cycle", "cosine", "cosine_restarts"])
def test_each_step_is_taken_at_its_rate_in_the_schedule_of_the_whole_training(schedule: str) -> None:
    options: dict[str, Any] = {"schedule": schedule, "momentum": 0.0, "nesterov": False, "weight_decay": 0.0}
    config, objective, reported = PretrainConfig(epochs=3, batch_size=8, lr=0.1, **options), Slope(), list[float]()
    fit(
        objective,  # type: ignore[arg-type]
        training_batches(),
        config,
        Arithmetic(CPU, bf16=False),
        seed=0,
        report=lambda epoch, metrics, state: reported.append(metrics["train/lr"]),
    )
    rates = [0.1 * lr_factor(config, step, 15) for step in range(15)]
    places = [*objective.places, float(objective.place.detach())]
    np.testing.assert_allclose(-np.diff(places), rates, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(reported, rates[4::5], rtol=1e-5)


def factors(schedule: str, total: int, **options) -> list[float]:
    config = FinetuneConfig(schedule=schedule, **options)
    return [lr_factor(config, step, total) for step in range(total)]


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


@given(st.integers(0, 4), st.integers(1, 3000))
def test_restarts_cut_the_fall_into_equal_parts_that_end_at_a_thousandth(restarts, total):
    values = factors("cosine_restarts", total, restarts=restarts)
    warmup = max(1, round(total / 60))
    assert values[:warmup] == pytest.approx([(step + 1) / warmup for step in range(warmup)])
    assert max(values) == 1.0
    fall = values[warmup:]
    assert all(1e-3 <= value <= 1.0 for value in fall)
    if len(fall) < 4 * (restarts + 1):
        return
    starts = [0, *(step for step in range(1, len(fall)) if fall[step] > fall[step - 1])]
    assert starts == [-(-part * len(fall) // (restarts + 1)) for part in range(restarts + 1)]
    for first, end in zip(starts, [*starts[1:], len(fall)], strict=True):
        assert fall[first:end] == sorted(fall[first:end], reverse=True)
        assert fall[end - 1] < 0.25


def test_the_schedule_with_restarts_is_the_published_one():
    """10 of 600 epochs of warm-up, two restarts, `eta_min = lr * 1e-3` (Vaze et al. 2022)."""
    values = factors("cosine_restarts", 6000, restarts=2)
    assert values[99] == values[100] == 1.0
    part = 5900 / 3
    for step in (100, 1000, 2066, 2067, 3000, 5000, 5999):
        progress = math.fmod((step - 100) / part, 1.0)
        assert values[step] == pytest.approx(1e-3 + 0.999 * 0.5 * (1 + math.cos(math.pi * progress)), abs=1e-9)
    assert values[-1] == pytest.approx(1e-3, abs=1e-5)
