"""Waiting for what other processes and threads do, with an end."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from subprocess import Popen
from typing import Any, TypeVar

import psutil

PATIENCE_S = 240.0
"""Many times what anything that a test waits for takes, also on a machine that is busy with something else."""
Found = TypeVar("Found")


def until(
    happened: Callable[[], Found],
    process: "Popen[Any] | None" = None,
    log: Callable[[], str] = str,
    pause_s: float = 0.05,
) -> Found:
    """The first result that is not false; fails with `log` where it does not come, or where `process` ends before."""
    end = time.monotonic() + PATIENCE_S
    while not (found := happened()):
        assert process is None or process.poll() is None, f"it ended with exit code {process.returncode}; {log()}"
        assert time.monotonic() < end, f"it did not happen in {PATIENCE_S:.0f} s; {log()}"
        time.sleep(pause_s)
    return found


@contextmanager
def started(command: Sequence[object], **options: Any) -> "Iterator[Popen[Any]]":
    """A process that a test which fails does not leave behind: unless it has ended, it is killed, with all below it.
    Asked to stop, the head of a cluster waits half a minute for its work to move elsewhere."""
    with Popen([str(word) for word in command], **options) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                processes = [process, *psutil.Process(process.pid).children(recursive=True)]
                for each in processes:
                    with suppress(psutil.NoSuchProcess):
                        each.kill()
                psutil.wait_procs(processes[1:], timeout=PATIENCE_S)
