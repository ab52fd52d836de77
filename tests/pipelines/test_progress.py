"""The time that is left, as it is printed where there is no terminal."""

import io
import re

import pytest
from rich.console import Console

from pipelines import progress
from pipelines.progress import ProgressBar


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What `time.monotonic` says, as its one item."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def times_left(clock: list[float], *updates: tuple[float, int]) -> list[str]:
    """The times left that ten epochs print, given when how many are done."""
    out = io.StringIO()
    bar = ProgressBar(Console(file=out, width=200), "pretrain", 10, "epochs")
    bar.update(0)
    for at, done in updates:
        clock[0] = 100.0 + at
        bar.update(done)
    return re.findall(r"(\S+) left", out.getvalue())


def test_it_falls_while_a_unit_lasts_and_no_further_than_the_units_after_it(clock: list[float]) -> None:
    assert times_left(clock, (60, 1), (90, 1), (119, 1), (200, 1)) == ["9:00", "8:30", "8:01", "8:00"]


def test_it_follows_the_rate_so_far(clock: list[float]) -> None:
    assert times_left(clock, (60, 1), (180, 2), (240, 4), (300, 10)) == ["9:00", "12:00", "6:00", "0:00"]


def test_what_was_done_before_does_not_count_as_fast(clock: list[float]) -> None:
    out = io.StringIO()
    bar = ProgressBar(Console(file=out, width=200), "sweep", 10, "epochs")
    bar.update(8)
    clock[0] += 50
    bar.update(9)
    assert "9/10 epochs, 0:50 left" in out.getvalue()
