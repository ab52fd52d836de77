"""Answers of child processes."""

import queue
from collections.abc import Callable, Iterable
from typing import Any, Protocol

PAUSE_S = 0.2


class _Process(Protocol):
    def is_alive(self) -> bool: ...


def answer_of(processes: Iterable[_Process], answers: Any, look: Callable[[], None] = lambda: None) -> Any:
    """The next answer in a queue of `multiprocessing`; `look` is called while it is waited for.

    Raises RuntimeError where a process ends and no answer is left.
    """
    while True:
        alive = all(process.is_alive() for process in processes)  # asked first: it may answer and end meanwhile
        try:
            return answers.get(timeout=PAUSE_S)
        except queue.Empty:
            if not alive:
                raise RuntimeError("a benchmark process ended early; its error stands above") from None
        look()
