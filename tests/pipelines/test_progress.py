"""The time that is left, as it is printed where there is no terminal."""

import io
import re
import sys
import threading
from typing import Any

import pytest
from rich.console import Console
from waiting import PATIENCE_S, until

from pipelines import progress
from pipelines.progress import ProgressBar, poll_in_background, stage_bar


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What `time.monotonic` says, as its one item."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def printed(clock: list[float], *updates: tuple[float, int], side_by_side: int = 1, doing: str = "") -> str:
    """What ten epochs print where there is no terminal, given when how many are done."""
    out = io.StringIO()
    bar = ProgressBar(Console(file=out, width=200), "pretrain", 10, "epochs", "starting Ray")
    bar.update(0)
    for at, done in updates:
        clock[0] = 100.0 + at
        bar.update(done, doing=doing, side_by_side=side_by_side)
    return out.getvalue()


def times_left(clock: list[float], *updates: tuple[float, int], side_by_side: int = 1) -> list[str]:
    return re.findall(r"(\S+) left", printed(clock, *updates, side_by_side=side_by_side))


def test_a_warning_during_a_bar_goes_to_stderr_where_that_is_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Console(file=io.StringIO(), force_terminal=True, width=200)
    with ProgressBar(terminal, "pretrain", 10, "epochs", "starting Ray"):
        print("a worker was lost", file=sys.stderr)
    assert capsys.readouterr().err == "a worker was lost\n"


def test_the_first_epoch_which_holds_the_start_is_not_counted(clock: list[float]) -> None:
    assert times_left(clock, (60, 1), (70, 2), (100, 4)) == ["1:20"]
    assert times_left(clock, (60, 1)) == []


def test_of_trainings_side_by_side_the_first_epoch_of_each_is_not_counted(clock: list[float]) -> None:
    assert times_left(clock, (60, 1), (90, 2), (120, 3), side_by_side=2) == ["3:30"]


def test_epochs_of_a_training_that_begins_again_do_not_undo_what_was_measured(clock: list[float]) -> None:
    at = ((10, 1), (30, 2), (50, 3), (70, 0), (90, 1))
    assert times_left(clock, *at) == ["2:40", "2:20", "3:20", "3:00"]


def test_it_falls_while_a_unit_lasts_and_no_further_than_the_units_after_it(clock: list[float]) -> None:
    at = ((60, 1), (120, 2), (420, 2), (750, 2))
    assert times_left(clock, *at) == ["8:00", "7:00", "7:00"]


def test_it_follows_the_rate_so_far(clock: list[float]) -> None:
    assert times_left(clock, (10, 1), (70, 2), (190, 3), (310, 5), (400, 10)) == ["8:00", "10:30", "6:15", "0:00"]


def test_what_was_done_before_does_not_count_as_fast(clock: list[float]) -> None:
    out = io.StringIO()
    bar = ProgressBar(Console(file=out, width=200), "sweep", 10, "epochs", "starting Ray")
    bar.update(7)
    for _ in range(2):
        clock[0] += 50
        bar.update(7 + int((clock[0] - 100) // 50))
    assert "9/10 epochs, 0:50 left" in out.getvalue()


@pytest.mark.parametrize(
    ("updates", "left"),
    [
        ([{"at_most": seconds} for seconds in (600, 500, 400, 15)], ["6:40", "0:15"]),
        ([{"total": epochs} for epochs in (10, 10, 10, 5)], ["13:20", "3:20"]),
    ],
    ids=["until the work is stopped", "of what will be done"],
)
def test_no_more_time_is_left_than(updates: list[dict[str, Any]], left: list[str], clock: list[float]) -> None:
    out = io.StringIO()
    bar = ProgressBar(Console(file=out, width=200), "sweep", 10, "epochs", "starting Ray")
    for done, update in enumerate(updates):
        bar.update(done, **update)
        clock[0] += 100
    assert re.findall(r"(\S+) left", out.getvalue()) == left


def test_a_line_is_printed_where_something_has_changed_and_seldom_else(clock: list[float]) -> None:
    text = printed(clock, *((at, 0) for at in range(1, 400)), (420, 1), (425, 2), (441, 3), doing="first epoch")
    assert text.splitlines() == [
        "  pretrain: first epoch",
        "  pretrain: first epoch (5:20 so far)",
        "  pretrain: 1/10 epochs",
        "  pretrain: 3/10 epochs, 1:14 left",
    ]


def test_a_long_text_is_cut_and_leaves_the_name_and_the_bar() -> None:
    out = io.StringIO()
    terminal = Console(file=out, width=80, force_terminal=True, color_system=None)
    with ProgressBar(terminal, "methods", 600, "epochs", "") as bar:
        bar.update(12, "OSRCI [generator], class split 0, CROSR, class split 0, C2AE, class split 0")
        bar._bar.refresh()
    line = next(line for line in out.getvalue().splitlines() if "12/600 epochs  OSRCI [gen" in line)
    assert re.search(r"methods {4}.{16} 12/600", line)
    assert line.rstrip().endswith("…")


def test_a_stage_counts_its_images_batch_by_batch(clock: list[float]) -> None:
    out = io.StringIO()
    with stage_bar(Console(file=out, width=200), "network_tables", 100) as advance:
        for _ in range(3):
            clock[0] += 30
            advance(20)
    assert out.getvalue().splitlines() == [
        "  network_tables: 20/100 images",
        "  network_tables: 40/100 images, 1:30 left",
        "  network_tables: 60/100 images, 1:00 left",
    ]


def test_a_terminal_says_what_goes_on_until_the_first_epoch_is_done() -> None:
    out = io.StringIO()
    with ProgressBar(Console(file=out, width=80, force_terminal=True), "sweep", 10, "epochs", "starting Ray") as bar:
        for done, doing in ((4, "starting workers"), (4, "first epoch of 2 trainings"), (5, "unseen")):
            bar.update(done, "2/5 trials", doing)
            bar._bar.refresh()
    shown = [
        out.getvalue().find(text) for text in ("starting Ray", "4/10 epochs, starting workers", "first epoch of 2")
    ]
    assert shown == sorted(shown)
    assert shown[0] >= 0
    assert "5/10 epochs  2/5 trials" in out.getvalue()
    assert "unseen" not in out.getvalue()


def test_polls_go_on_after_an_error_that_cannot_be_reported() -> None:
    polls, told = [], []

    def poll() -> None:
        polls.append(len(polls))
        raise ConnectionError

    def tell(error: Exception) -> None:
        told.append(error)
        raise BrokenPipeError

    with poll_in_background(poll, tell):
        until(lambda: len(polls) > 1)
    assert all(isinstance(error, ConnectionError) for error in told)
    assert len(told) > 1


def test_an_end_that_waits_for_the_last_poll_is_explained() -> None:
    polls, explained = threading.Event(), threading.Event()

    def poll() -> None:
        polls.set()
        explained.wait(PATIENCE_S)

    with poll_in_background(poll, print, explained.set):
        polls.wait(PATIENCE_S)
    assert explained.is_set()
