"""How long a training took, as its manifest has it."""

import time
from pathlib import Path

import pytest
import torch

from proser_core.jobs.worker import DurableReport

CPU = torch.device("cpu")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The time, which tests set."""
    now = {"seconds": 100.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["seconds"])
    return now


def test_epochs_count_and_what_reporting_them_takes_does_not(tmp_path: Path, clock: dict[str, float]) -> None:
    def slow_to_notify(_: object) -> None:
        clock["seconds"] += 50.0

    report = DurableReport(tmp_path, slow_to_notify, write=True)
    for epoch in range(3):
        clock["seconds"] += 2.5
        report(epoch, {}, {"epoch": epoch})
    assert report.seconds == 7.5


def test_a_training_that_goes_on_adds_to_what_it_had_and_an_epoch_that_was_lost_is_not_counted(
    tmp_path: Path, clock: dict[str, float]
) -> None:
    first = DurableReport(tmp_path, lambda _: None, write=True)
    clock["seconds"] += 4.0
    first(0, {}, {"epoch": 0})
    clock["seconds"] += 1000.0  # lost with the worker
    again = DurableReport(tmp_path, lambda _: None, write=True)
    assert again.last_state(CPU) == {"epoch": 0, "seconds": 4.0}
    clock["seconds"] += 3.0
    again(1, {}, {"epoch": 1})
    assert again.seconds == 7.0
