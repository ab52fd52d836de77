"""A look at the replicas now and then, to tell the terminal what they serve."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console

from pipelines.console import say

APPLICATION = "proser"
LOOK = 2.0  # seconds between two looks
PATIENCE = 120.0  # seconds in which something must answer again
ENDED = {
    "DEPLOY_FAILED": "its replicas do not come up",
    "DELETING": "it is being shut down",
    "NOT_STARTED": "it was shut down",
}
State = dict[str, str]


def _status() -> str:
    """Of the application, by Ray Serve's names."""
    from ray import serve

    application = serve.status().applications.get(APPLICATION)
    return "NOT_STARTED" if application is None else str(application.status.value)


@dataclass
class Watch:
    """Says when another version is served, and what stands in the way of one.

    `handle` is asked for the state of any one of the replicas, `status` for that of the application,
    `clock` for the seconds that silence lasts.
    """

    handle: Any
    title: str
    replicas: int
    console: Console
    status: Callable[[], str] = _status
    clock: Callable[[], float] = time.monotonic
    ended: str = ""
    _told: dict[str, tuple[str, str]] = field(default_factory=dict)  # model and problem, by replica
    _silent_since: float | None = None

    def until(self, stopped: threading.Event) -> int:
        """Look until `stopped`: 0, or 1 where nothing answers any more. A look that hangs holds up nobody."""

        def look() -> None:
            while not (stopped.wait(LOOK) or self.ended):
                self.look()
            stopped.set()

        threading.Thread(target=look, name="watch", daemon=True).start()
        stopped.wait()
        if self.ended:
            say(self.console, f"the server ended: {self.ended}")
        return 1 if self.ended else 0

    def look(self) -> None:
        """One look. What answers is well, whatever Ray Serve says of the other replicas."""
        began = self.clock()
        try:
            self._tell(self.handle.state.remote().result(timeout_s=LOOK))
            self._silent_since = None
            return
        except Exception:  # a replica that is being replaced, or the end
            if self._silent_since is None:
                self._silent_since = began
        try:
            status = self.status()
        except Exception:  # its controller is gone, or does not answer now
            status = ""
        self.ended = ENDED.get(status, "")
        if not self.ended and self.clock() - self._silent_since > PATIENCE:
            self.ended = f"no replica has answered for {PATIENCE:g} s"

    def _tell(self, state: State) -> None:
        replica, now = state["replica"], (state["model"], state["problem"])
        model, problem = self._told.get(replica, (self.title, ""))
        self._told[replica] = now
        who = f"replica {replica}: " if self.replicas > 1 else ""
        if now[0] != model:
            say(self.console, f"{who}now {now[0]}")
        if now[1] != problem:
            say(self.console, f"{who}still {now[0]}: {now[1]}" if now[1] else f"{who}the registry answers again")
