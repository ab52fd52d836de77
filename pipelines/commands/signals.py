"""SIGTERM, and SIGHUP when a terminal is closed, end a command as Ctrl-C does: no run in MLflow stays RUNNING."""

import os
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from proser_core.exit_codes import Terminated


@contextmanager
def terminated_by_signals() -> Iterator[None]:
    """Raises Terminated, also where Ray was waiting: it turns what a handler raises into a KeyboardInterrupt of its
    own, by which the command would say that it was interrupted. What is ignored stays so: `nohup` has SIGHUP ignored.
    After an interruption the process ignores Ctrl-C: it is ending.
    """
    heard: list[int] = []

    def hear(number: int, _: object) -> None:
        heard.append(number)
        if number == signal.SIGHUP:
            signal.signal(number, signal.SIG_IGN)  # the shell and the system both send it
            _leave_closed_terminal()
        raise Terminated

    caught = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, hear) for number in caught}
    try:
        yield
    except KeyboardInterrupt as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # an impatient second one would break into Ray's end
        if not heard or isinstance(error, Terminated):
            raise
        raise Terminated from error
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave_closed_terminal() -> None:
    """Send stdout and stderr nowhere where they were a terminal: a write to a closed one is an error."""
    for descriptor in (1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
