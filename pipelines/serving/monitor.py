"""Polls the process or the replicas that serve, and says on the terminal what they serve."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from rich.console import Console

from pipelines.console import say

POLL_INTERVAL_S = 2.0
SILENCE_TIMEOUT_S = 120.0  # after which a server without an answer has ended
ENDED = {
    "DEPLOY_FAILED": "its replicas do not start",
    "DELETING": "it is being shut down",
    "NOT_STARTED": "it was shut down",
}
State = dict[str, str]


@dataclass
class ReplicaMonitor:
    """Says when another version is served, and why a newer one is not. `ask` returns the state of any one of the
    replicas within so many seconds, `status` that of the application, `clock` seconds."""

    ask: Callable[[float], State]
    title: str
    several: bool
    console: Console
    status: Callable[[], str]
    clock: Callable[[], float] = time.monotonic
    ended: str = ""
    _reported: dict[str, tuple[str, str]] = field(default_factory=dict)  # model and problem, by replica
    _silent_since: float | None = None

    def until(self, signals: SimpleQueue[int]) -> int:
        """Poll until a signal arrives: 0, or 1 where no replica answers any more. A poll that hangs does not delay the
        end."""
        stopped = threading.Event()

        def poll() -> None:
            while not (stopped.wait(POLL_INTERVAL_S) or self.ended):
                self.poll()

        threading.Thread(target=poll, name="monitor", daemon=True).start()
        while not self.ended:
            try:
                signals.get(timeout=POLL_INTERVAL_S)  # bounded: a signal that reaches another thread ends no wait
                break
            except Empty:
                self._end_if_silent()  # not left to the poll: its questions to Ray may never return
        stopped.set()
        if ended := self.ended:
            say(self.console, f"the server ended: {ended}")
        return 1 if ended else 0

    def poll(self) -> None:
        """Ask one replica. The server is healthy while any one answers, whatever Ray Serve reports of the others."""
        if self._silent_since is None:
            self._silent_since = self.clock()
        with suppress(Exception):  # of a replica that is being replaced, or at the end
            self._report(self.ask(POLL_INTERVAL_S))
            self._silent_since = None
            return
        try:
            status = self.status()
        except Exception:  # the controller is gone, or does not answer now
            status = ""
        self.ended = self.ended or ENDED.get(status, "")
        self._end_if_silent()

    def _end_if_silent(self) -> None:
        since = self._silent_since
        if not self.ended and since is not None and self.clock() - since > SILENCE_TIMEOUT_S:
            self.ended = f"no replica has answered for {SILENCE_TIMEOUT_S:g} s"

    def _report(self, state: State) -> None:
        replica, now = state["replica"], (state["model"], state["problem"])
        model, problem = self._reported.get(replica, (self.title, ""))
        self._reported[replica] = now
        who = f"replica {replica}: " if self.several else ""
        if now[0] != model:
            say(self.console, f"{who}now {now[0]}")
        if now[1] != problem:
            say(self.console, f"{who}still {now[0]}: {now[1]}" if now[1] else f"{who}follows the registry again")
