"""Progress of long work with the time that is left: a bar on a terminal, a line now and then elsewhere."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from proser_core.jobs.progress import LINE_EVERY, duration


class Tracker:
    """One piece of work, measured in units of its own (epochs, say)."""

    def __init__(self, console: Console, name: str, total: int, unit: str) -> None:
        self._console, self._name, self._total, self._unit = console, name, total, unit
        self._first: int | None = None
        self._done = 0
        self._started = self._last_line = self._reached = time.monotonic()
        self._bar: Progress | None = None
        if console.is_terminal:
            columns = (TextColumn("{task.description:<10}"), BarColumn(), TextColumn("{task.fields[text]}"))
            self._bar = Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task(name, total=total, text="starting")
            self._bar.start()

    def update(self, done: int, note: str = "") -> None:
        """Say how much is done; the time left comes from the rate since the first call, and falls between units."""
        if self._first is None:
            self._first = done
        if done != self._done:
            self._done, self._reached = done, time.monotonic()
        text = f"{done}/{self._total} {self._unit}{self._time_left(done)}{note and '  ' + note}"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, text=text)
        elif time.monotonic() - self._last_line >= LINE_EVERY:
            self._last_line = time.monotonic()
            self._console.print(f"  {self._name}: {text}", highlight=False)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def _time_left(self, done: int) -> str:
        fresh = done - (self._first or 0)
        if fresh <= 0:
            return ""
        each = (self._reached - self._started) / fresh
        left = self._total - done
        seconds = max(each * left - (time.monotonic() - self._reached), each * (left - 1), 0.0)
        return f", {duration(seconds)} left"


@contextmanager
def watching(poll: Callable[[], None], on_error: Callable[[Exception], None], every: float = 1.0) -> Iterator[None]:
    """Call `poll` every so often from a thread while the block runs.

    An exception in `poll` goes to `on_error` and does not stop the work that is watched.
    """
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(every):
            try:
                poll()
            except Exception as error:
                on_error(error)

    thread = threading.Thread(target=loop, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
