"""Tracking that may wait: what is safe on disk is logged now, or at the end of a run where the server is away."""

import math
import os
import time
from collections.abc import Callable
from functools import partial
from typing import ParamSpec

from pipelines.tracking.reasons import reason_of
from pipelines.tracking.server import away, is_outage, tracker
from proser_core.errors import ConfigError

TRACKING_TIMEOUT_S, TIMEOUT_VARIABLE = 90.0, "PROSER_TRACKING_PATIENCE"
"""Seconds that a run waits at its end for a tracking server that went away, and the variable that changes it."""
RETRY_INTERVAL_S = 2.0
AWAITED, LAST_REQUESTS = "awaited", 5
"""What is said once, and of how many requests in a row, at most, an end waits for the answers: the last epochs, the
load of the machines, the status."""
P = ParamSpec("P")


def tracking_timeout() -> float:
    """TRACKING_TIMEOUT_S, or the variable's value; raises ConfigError where that is not a number of seconds."""
    given = os.environ.get(TIMEOUT_VARIABLE) or TRACKING_TIMEOUT_S
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ConfigError(f"{TIMEOUT_VARIABLE} is {given!r}; need a number of seconds, 0 or more, such as 90")
    return seconds


class DeferredTracking:
    """A queue of log calls, each safe to repeat; `lost` says why the server does not answer where they are given up
    for now."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.lost = ""
        self._say = say
        self._waiting: list[Callable[[], None]] = []
        self._warned: set[str] = set()

    def track(self, log: Callable[P, None], *arguments: P.args, **named: P.kwargs) -> None:
        """Log something that is safe on disk: now, or in `settle` where the tracking server is away. `log` must change
        nothing where it is called again with the same arguments."""
        self._waiting.append(partial(log, *arguments, **named))
        if len(self._waiting) > 1:  # calls keep their order, and no work waits for a server that is away
            return
        error = self._log_waiting()
        if error is not None:
            self.warn(error)

    def warn(self, error: Exception) -> None:
        """Say once that metrics are logged later, and once what each other kind of error is that whoever watches the
        trainings meets; the work goes on."""
        kind = "" if is_outage(error) else type(error).__name__
        if kind in self._warned:
            return
        self._warned.add(kind)
        if kind:
            self._say(f"  the trainings cannot be watched now ({kind}: {reason_of(error)}); they go on")
        else:
            self._say(f"  metrics cannot be logged now ({reason_of(error)}); the work goes on, they are logged later")

    def say_awaited(self) -> None:
        """Say once what the end of a run waits for, and how long at most where nothing comes."""
        if AWAITED not in self._warned:
            self._warned.add(AWAITED)
            seconds = LAST_REQUESTS * float(os.environ.get("MLFLOW_HTTP_REQUEST_TIMEOUT", "20"))
            self._say(f"  waiting for {tracker()} to learn that the work ends; {seconds:.0f} s at most")

    def settle(self) -> None:
        """Log what still waits. The first time that the server is away, wait for it, but not longer than
        `tracking_timeout`; after that, try once."""
        error = self._log_waiting()
        if error is not None and not self.lost:
            timeout = tracking_timeout()
            end = time.monotonic() + timeout
            self._say(f"  {away()} ({reason_of(error)}); waiting {timeout:.0f} s for it")
            while error is not None and time.monotonic() <= end:
                time.sleep(RETRY_INTERVAL_S)
                error = self._log_waiting()
        self.lost = "" if error is None else reason_of(error)

    def _log_waiting(self) -> Exception | None:
        """Log what waits until the server does not answer."""
        while self._waiting:
            try:
                self._waiting[0]()
            except Exception as error:
                if not is_outage(error):
                    raise
                return error
            del self._waiting[0]
        return None
