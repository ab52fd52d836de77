"""What every stage of one pipeline run works with, beside the recipe and its inputs."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pipelines.cluster import Cluster
from proser_core.config import FinetuneConfig
from proser_core.errors import first_line
from proser_core.jobs.store import Store

if TYPE_CHECKING:
    from pipelines.tracking.runs import ParentRun

PATIENCE = 90.0
"""Seconds in all that a run waits for a tracking server that went away before it goes on without it."""
RETRY_EVERY = 5.0


@dataclass(frozen=True)
class Search:
    """A budget: `max_seconds` of fine-tuning (0: no limit), and the points that may be stopped early."""

    max_seconds: float = 0.0
    points: tuple[FinetuneConfig, ...] = ()


@dataclass
class RunContext:
    """Storage, cluster, tracking and terminal of a run.

    `data_inputs` are the fields and files that decide the prepared data, by split index;
    `pretrained_file` is a user's own closed-set checkpoint; `bf16` is the precision that the recipe came
    to on the hardware that trains it; `finetunes` are the trials of the sweep, and `spaces` the points
    among them by the search space that they belong to; without `trains` trainings that are not in the
    storage count as failed; `search` is the budget of the fine-tunes; `failures` collects the trials that failed.
    """

    store: Store
    cluster: Cluster
    parent: "ParentRun"
    console: Console
    data_dir: Path | None
    data_inputs: dict[int, dict[str, Any]]
    pretrained_file: Path | None
    bf16: bool
    finetunes: list[FinetuneConfig]
    spaces: dict[str, list[FinetuneConfig]] = field(default_factory=dict)
    trains: bool = True
    search: Search = Search()
    failures: list[str] = field(default_factory=list)
    tracking_lost: str = ""
    _warned: bool = False
    _waited: float = 0.0

    def say(self, text: str) -> None:
        """One line for the user."""
        self.console.print(text, highlight=False, markup=False)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Announce a stage that runs now, and keep its time."""
        self.store.announce(name)
        started = time.monotonic()
        yield
        self.store.ran[name] = time.monotonic() - started

    def watch_failed(self, error: Exception) -> None:
        """Training goes on where watching it fails; what was not logged is logged at the end."""
        if not self._warned:
            self._warned = True
            self.say(
                f"  metrics cannot be logged now ({first_line(error)}); training goes on, they are logged at the end"
            )

    def track(self, log: Callable[[], None]) -> None:
        """Log something that is safe on disk; a server that is away is waited for, then done without.

        `log` must change nothing where it is called again.
        """
        from pipelines.tracking.server import is_outage

        while not self.tracking_lost:
            try:
                log()
                return
            except Exception as error:
                if not is_outage(error):
                    raise
                self._wait(first_line(error))

    def _wait(self, reason: str) -> None:
        if self._waited == 0.0:
            self.say(f"  the tracking server does not answer ({reason}); waiting up to {PATIENCE:.0f} s for it")
        if self._waited >= PATIENCE:
            self.tracking_lost = reason
            return
        started = time.monotonic()
        time.sleep(RETRY_EVERY)
        self._waited += time.monotonic() - started
