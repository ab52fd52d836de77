"""What every stage of one pipeline run works with, beside the recipe and its inputs."""

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


@dataclass
class RunContext:
    """Storage, cluster, tracking and terminal of a run.

    `data_inputs` are the fields and files that decide the prepared data; `pretrained_file` is a
    user's own closed-set checkpoint; `bf16` is the precision that the recipe came to on the hardware
    that trains it; `finetunes` are the trials of the sweep, and without `trains` those that are not
    in the storage count as failed; `failures` collects the trials that failed.
    """

    store: Store
    cluster: Cluster
    parent: "ParentRun"
    console: Console
    data_dir: Path | None
    data_inputs: dict[str, Any]
    pretrained_file: Path | None
    bf16: bool
    finetunes: list[FinetuneConfig]
    trains: bool = True
    failures: list[str] = field(default_factory=list)
    _warned: bool = False

    def say(self, text: str) -> None:
        """One line for the user."""
        self.console.print(text, highlight=False, markup=False)

    def watch_failed(self, error: Exception) -> None:
        """Training goes on where watching it fails; what was not logged is logged at the end."""
        if not self._warned:
            self._warned = True
            self.say(
                f"  metrics cannot be logged now ({first_line(error)}); training goes on, they are logged at the end"
            )
