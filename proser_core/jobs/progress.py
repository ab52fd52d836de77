"""The time that is left, and progress in plain text for machines without rich."""

import math
import time
from collections import defaultdict
from typing import TextIO

from proser_core.titles import counted, duration

LINE_EVERY = 20.0  # seconds between lines where there is no terminal


class TimeLeft:
    """Time left of work of several kinds, from the mean seconds per unit of each kind.

    The first unit of a kind does not count, since it includes the start; nor, of trainings side by side, does the first
    of each. A kind without a mean takes that of the first kind. While a unit lasts, the estimate falls by its time so
    far, at most to that of the units after it.
    """

    def __init__(self) -> None:
        self.left: dict[str, int] = defaultdict(int)
        """Units of each kind that are still to come."""
        self._done: dict[str, int] = defaultdict(int)
        self._seconds: dict[str, float] = defaultdict(float)
        self._started: dict[str, int] = defaultdict(int)
        self._kind, self._since = "", time.monotonic()

    def begin(self, kind: str) -> None:
        """Start the clock of the next unit, of this kind."""
        self._kind, self._since = kind, time.monotonic()

    def advance(self, units: int = 1, side_by_side: int = 1) -> None:
        """Count units of the kind that has begun, done since the last call."""
        now, kind = time.monotonic(), self._kind
        self.left[kind] -= units
        if self._started[kind] >= side_by_side:
            self._seconds[kind] += now - self._since
            self._done[kind] += units
        self._started[kind] += units
        self._since = now

    def text(self, at_most: float = math.inf) -> str:
        """Such as "2:03 left", no more than `at_most` seconds; empty before a second unit is done."""
        means = {kind: self._seconds[kind] / done for kind, done in self._done.items()}
        if not means:
            return ""
        first = next(iter(means.values()))
        left = sum(max(0, units) * means.get(kind, first) for kind, units in self.left.items())
        this_unit = min(time.monotonic() - self._since, means.get(self._kind, first))
        return f"{duration(max(0.0, min(left - this_unit, at_most)))} left"


class EpochProgress:
    """Epochs of many trainings: one line that is overwritten on a terminal, else a line every 20 seconds at most."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._time_left = stream, TimeLeft()
        self._name, self._kind, self._epoch, self._epochs = "", "", 0, 0
        self._last_line = time.monotonic()

    def expect(self, kind: str, epochs: int) -> None:
        """Set how many epochs of this kind are left."""
        self._time_left.left[kind] = epochs

    def begin(self, name: str, kind: str, epochs: int, done: int) -> None:
        """Begin a training, of which `done` epochs are there already."""
        self._name, self._kind, self._epoch, self._epochs = name, kind, done, epochs
        self._time_left.left[kind] -= done
        self._time_left.begin(kind)
        self._last_line = 0.0
        going_on = f"going on after epoch {done} of {epochs}" if done else counted(epochs, "epoch")
        self._write(f"{name}: {going_on}")

    def epoch(self, metrics: dict[str, float], side_by_side: int = 1) -> None:
        """Count an epoch that is over, of so many trainings at a time."""
        self._time_left.advance(side_by_side=side_by_side)
        self._epoch += 1
        loss = metrics.get("loss/closed_set")
        note = f"loss {loss:.3f}" if loss is not None else ""
        parts = (f"{self._name}: epoch {self._epoch}/{self._epochs}", note, self._time_left.text())
        self._write(", ".join(filter(None, parts)))

    def images(self, done: int, total: int) -> None:
        """Images that have their embedding, before any training."""
        self._epoch, self._epochs = done, total  # the last line is written in any case
        self._write(f"embeddings: {done}/{total} images")

    def say(self, text: str) -> None:
        """A line of its own on stdout."""
        self._clear()
        print(text, flush=True)

    def close(self) -> None:
        """End the training, with all of its epochs or not; leave the terminal on a fresh line."""
        self._time_left.left[self._kind] -= self._epochs - self._epoch
        self._epoch = self._epochs
        self._clear()

    def _clear(self) -> None:
        if self._stream.isatty():
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _write(self, text: str) -> None:
        now = time.monotonic()
        if self._stream.isatty():
            self._stream.write(f"\r\x1b[K{text}")
        elif now - self._last_line >= LINE_EVERY or self._epoch == self._epochs:
            self._last_line = now
            self._stream.write(f"{text}\n")
        self._stream.flush()
