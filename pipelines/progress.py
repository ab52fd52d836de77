"""Progress of long work on the terminal, and polling it from a thread."""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TextColumn
from rich.table import Column
from rich.text import Text

from proser_core.jobs.progress import LINE_EVERY, TimeLeft
from proser_core.titles import duration

HEARTBEAT = 300.0  # seconds between lines where nothing changes
SLOW_S = 1.0  # after which an end that waits is explained


class _CutText(TextColumn):
    """The text of a bar. It alone is cut where a terminal is too narrow."""

    def __init__(self) -> None:
        super().__init__("{task.fields[text]}", markup=False, table_column=Column(no_wrap=False))

    def render(self, task: Task) -> Text:
        text = super().render(task)
        text.no_wrap, text.overflow = True, "ellipsis"
        return text


class ProgressBar(AbstractContextManager["ProgressBar"]):
    """One piece of work, counted in units such as epochs: a bar on a terminal until the block ends. Elsewhere a line
    where something has changed, every 20 seconds at most, and a sign of life every 5 minutes."""

    def __init__(self, console: Console, name: str, total: int, unit: str, doing: str) -> None:
        self._console, self._name, self._total, self._unit = console, name, total, unit
        self._time_left = TimeLeft()
        self._done: int | None = None
        self._before = 0
        self._begun = self._last_line = time.monotonic()
        self._printed: tuple[int | None, str] = None, ""
        columns = (TextColumn("{task.description:<10}"), BarColumn(16, table_column=Column(no_wrap=True)), _CutText())
        self._bar = Progress(
            *columns,
            console=console,
            transient=True,
            disable=not console.is_terminal,
            redirect_stderr=sys.stderr.isatty(),  # a file gets its warnings
        )
        self._task = self._bar.add_task(name, total=total, text=doing)
        self._bar.start()

    def update(
        self,
        done: int,
        note: str = "",
        doing: str = "",
        side_by_side: int = 1,
        total: int | None = None,
        at_most: float = math.inf,
    ) -> None:
        """Show how much is done, of so many units at a time; what was done at the first call counts as done before.
        `doing` says what goes on until another unit is done; `total` is of work whose size was not known before, and
        `at_most` the seconds after which it is stopped."""
        if total is not None and total != self._total:
            self._total = total
            self._bar.update(self._task, total=total)
        if self._done is None:
            self._before = done
        if self._done is None or done < self._done:  # a training began again
            self._time_left.begin(self._unit)
        elif done != self._done:
            self._time_left.advance(done - self._done, side_by_side)
        self._time_left.left[self._unit] = self._total - done
        self._done = done
        doing = doing if done == self._before else ""
        count = "" if doing and not done else f"{done}/{self._total} {self._unit}"
        text = ", ".join(filter(None, (count, doing, self._time_left.text(at_most))))
        text = f"{text}  {note}" if note and not doing else text
        self._bar.update(self._task, completed=done, text=text)
        if self._bar.disable:
            self._print_if_due(text, (done, doing))

    def report(self, done: int, total: int) -> None:
        """Show how much is done of work that counts its own total."""
        self.update(done, total=total)

    def _print_if_due(self, text: str, state: tuple[int, str]) -> None:
        now = time.monotonic()
        if now - self._last_line >= (LINE_EVERY if state != self._printed else HEARTBEAT):
            since = f" ({duration(now - self._begun)} so far)" if state == self._printed else ""
            self._last_line, self._printed = now, state
            self._console.print(f"  {self._name}: {text}{since}", highlight=False, soft_wrap=True)

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


@contextmanager
def stage_bar(console: Console, stage: str, images: int) -> Iterator[Callable[[int], None]]:
    """A bar for a stage that goes through so many images; to be called with how many more are done."""
    done = 0
    with ProgressBar(console, stage, images, "images", "") as bar:

        def advance(count: int) -> None:
            nonlocal done
            done += count
            bar.update(done)

        bar.update(0)
        yield advance


@contextmanager
def explained_if_slow(explain: Callable[[], None]) -> Iterator[None]:
    """Call `explain` from a thread where the block takes longer than SLOW_S."""
    timer = threading.Timer(SLOW_S, explain)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def poll_in_background(
    poll: Callable[[], None], on_error: Callable[[Exception], None], on_slow_end: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Call `poll` once a second from a thread while the block runs; its exceptions go to `on_error`, and do not stop
    the work in the block. `on_slow_end` is called where the last call lasts on after the block."""
    stop = threading.Event()

    def loop() -> None:
        while not stop.wait(1.0):
            try:
                poll()
            except Exception as error:
                with suppress(OSError, ValueError):  # of a terminal that is gone
                    on_error(error)

    thread = threading.Thread(target=loop, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        with explained_if_slow(on_slow_end):
            thread.join()
