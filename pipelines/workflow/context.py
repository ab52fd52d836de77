"""What every stage of one pipeline run works with, beside the recipe and its inputs."""

import math
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from pipelines.cluster.cluster import Cluster
from proser_core.config import FinetuneConfig
from proser_core.errors import ConfigError, first_line
from proser_core.store.store import Store

if TYPE_CHECKING:
    from pipelines.tracking.runs import ParentRun
    from proser_core.recognition.holdout import Proxy

PATIENCE, PATIENCE_VARIABLE = 90.0, "PROSER_TRACKING_PATIENCE"
"""Seconds that a run waits at its end for a tracking server that went away, and the variable that changes it."""
RETRY_EVERY = 2.0


def tracking_patience() -> float:
    """PATIENCE, or what the variable has; raises ConfigError where that is no number of seconds."""
    given = os.environ.get(PATIENCE_VARIABLE) or PATIENCE
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ConfigError(f"{PATIENCE_VARIABLE} is {given!r}; need a number of seconds, 0 or more, such as 90")
    return seconds


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
    storage count as failed; `search` is the budget of the fine-tunes; `proxy` is what chose this run's
    fine-tune where it knows every class; `failures` collects the trials that failed; `tracking_lost` is why the
    server did not answer where something was left untracked.
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
    proxy: "Proxy | None" = None
    failures: list[str] = field(default_factory=list)
    tracking_lost: str = ""
    _untracked: list[Callable[[], None]] = field(default_factory=list)
    _warned: bool = False
    _shortage: str = ""

    def say(self, text: str) -> None:
        """One line for the user."""
        self.console.print(text, highlight=False, markup=False)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Announce a stage that runs now, and keep its time."""
        self.store.announce(name)
        started = time.monotonic()
        yield
        self.store.ran[name] = self.store.ran.get(name, 0.0) + time.monotonic() - started

    def watch_cluster(self, workers: int) -> None:
        """Say when a cluster that lost nodes has no room for any training, which Ray would wait for in silence."""
        shortage = self.cluster.watch(workers)
        if shortage != self._shortage:
            self._shortage = shortage
            self.say(f"  waiting for {shortage}" if shortage else "  the cluster has room again")

    def watch_failed(self, error: Exception) -> None:
        """Training goes on where watching it fails; what was not logged is logged later."""
        if not self._warned:
            self._warned = True
            self.say(f"  metrics cannot be logged now ({first_line(error)}); the work goes on, they are logged later")

    def track(self, log: Callable[[], None]) -> None:
        """Log something that is safe on disk: now, or in `settle` where the tracking server is away.

        `log` must change nothing where it is called again.
        """
        self._untracked.append(log)
        if len(self._untracked) > 1:  # in the order in which it was said, and no work waits for a server that is away
            return
        error = self._try()
        if error is not None:
            self.watch_failed(error)

    def settle(self) -> None:
        """Log what is left; a server that is away is waited for, then done without."""
        patience = tracking_patience()
        end, error = time.monotonic() + patience, None
        while self._untracked and not self.tracking_lost:
            waited, error = error is not None, self._try()
            if error is None:
                return
            if not waited:
                self.say(
                    f"  the tracking server does not answer ({first_line(error)}); waiting {patience:.0f} s for it"
                )
            if time.monotonic() > end:
                self.tracking_lost = first_line(error)
            else:
                time.sleep(RETRY_EVERY)

    def _try(self) -> Exception | None:
        """Log what is left until the server does not answer."""
        from pipelines.tracking.server import is_outage

        while self._untracked:
            try:
                self._untracked[0]()
            except Exception as error:
                if not is_outage(error):
                    raise
                return error
            del self._untracked[0]
        return None
