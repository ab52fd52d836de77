"""Progress in plain text, for machines that have nothing but Python."""

import time
from collections import defaultdict
from typing import TextIO

LINE_EVERY = 20.0  # seconds between lines where there is no terminal


def duration(seconds: float) -> str:
    """1:02:03, or 2:03 below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class EpochProgress:
    """Epochs of many trainings, one line that is written over on a terminal, else a line now and then.

    The time left comes from the mean epoch of each kind of training; a kind that has not begun
    counts as the other one.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._left: dict[str, int] = defaultdict(int)
        self._seconds: dict[str, list[float]] = defaultdict(list)
        self._name, self._kind, self._epoch, self._epochs = "", "", 0, 0
        self._epoch_began = self._last_line = time.monotonic()

    def expect(self, kind: str, epochs: int) -> None:
        """So many epochs of this kind are to come."""
        self._left[kind] = epochs

    def begin(self, name: str, kind: str, epochs: int, done: int) -> None:
        """A training begins, of which `done` epochs are there already."""
        self._name, self._kind, self._epoch, self._epochs = name, kind, done, epochs
        self._left[kind] -= done
        self._epoch_began = time.monotonic()
        self._last_line = 0.0
        going_on = f"going on after epoch {done} of {epochs}" if done else f"{epochs} epochs"
        self._write(f"{name}: {going_on}")

    def epoch(self, metrics: dict[str, float]) -> None:
        """An epoch is over."""
        now = time.monotonic()
        self._seconds[self._kind].append(now - self._epoch_began)
        self._epoch_began = now
        self._epoch += 1
        self._left[self._kind] -= 1
        loss = metrics.get("loss/closed_set")
        note = f", loss {loss:.3f}" if loss is not None else ""
        self._write(f"{self._name}: epoch {self._epoch}/{self._epochs}{note}, {self._time_left()} left")

    def close(self) -> None:
        """The training is over, with all of its epochs or not; leave the terminal on a fresh line."""
        self._left[self._kind] -= self._epochs - self._epoch
        self._epoch = self._epochs
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

    def _time_left(self) -> str:
        means = {kind: sum(seconds) / len(seconds) for kind, seconds in self._seconds.items() if seconds}
        fallback = next(iter(means.values()))
        return duration(sum(max(0, epochs) * means.get(kind, fallback) for kind, epochs in self._left.items()))
