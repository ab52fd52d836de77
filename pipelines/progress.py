"""Progress of long work on the terminal, and polling it from a thread."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from proser_core.jobs.progress import LINE_EVERY, TimeLeft


class ProgressBar:
    """One piece of work, counted in units such as epochs: a bar on a terminal, a line every 20 seconds elsewhere."""

    def __init__(self, console: Console, name: str, total: int, unit: str) -> None:
        self._console, self._name, self._total, self._unit = console, name, total, unit
        self._time_left = TimeLeft()
        self._done: int | None = None
        self._last_line = time.monotonic()
        columns = (TextColumn("{task.description:<10}"), BarColumn(), TextColumn("{task.fields[text]}"))
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task(name, total=total, text="starting")
        self._bar.start()

    def update(self, done: int, note: str = "") -> None:
        """Show how much is done; what was done at the first call counts as done before."""
        if self._done is None:
            self._time_left.left[self._unit] = self._total - done
            self._time_left.begin(self._unit)
        elif done != self._done:
            self._time_left.advance(done - self._done)
        self._done = done
        text = ", ".join(filter(None, (f"{done}/{self._total} {self._unit}", self._time_left.text())))
        text = f"{text}  {note}" if note else text
        self._bar.update(self._task, completed=done, text=text)
        if self._bar.disable and time.monotonic() - self._last_line >= LINE_EVERY:
            self._last_line = time.monotonic()
            self._console.print(f"  {self._name}: {text}", highlight=False)

    def close(self) -> None:
        """Remove the bar."""
        self._bar.stop()


@contextmanager
def poll_in_background(poll: Callable[[], None], on_error: Callable[[Exception], None]) -> Iterator[None]:
    """Call `poll` once a second from a thread while the block runs; its exceptions go to `on_error`, and do not stop
    the work in the block."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(1.0):
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
