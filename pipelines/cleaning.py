"""`proser clean`: what a storage holds that no run will ask for again."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pipelines.cluster import RAY_FOLDER
from pipelines.workflow import opened
from proser_core.jobs.code_version import code_version
from proser_core.jobs.files import read_json
from proser_core.jobs.spec import PREPARE, PRETRAIN, TRIALS
from proser_core.jobs.store import MANIFEST
from proser_core.jobs.trials import WORKER

STAGES = {
    PREPARE: ("proser_core.jobs.preparing",),
    PRETRAIN: (WORKER,),
    TRIALS: (WORKER,),
    "sweep": ("pipelines.stages.sweep",),
    "evaluate": ("pipelines.stages.evaluate",),
    "report": ("pipelines.stages.report", "pipelines.stages.sweep_report"),
    "compare": ("pipelines.reproduction.comparing",),
    "reproduction": ("pipelines.reproduction.report",),
    "figures": ("pipelines.stages.paper_figures",),
}
"""Folders of a storage, and the modules whose code versions stand in their keys."""
DAY = 86_400
UNFINISHED, LEFT_BY_RAY, OUTDATED = "unfinished", "left by Ray", "of other code"


@dataclass(frozen=True)
class Leftover:
    """A folder that may go, and why."""

    path: Path
    reason: str

    @property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())


def leftovers(root: Path, older_than: float, outdated: bool) -> Iterator[Leftover]:
    """Folders that nothing was written to for `older_than` days: unfinished work, and what Ray left.

    With `outdated`, also finished work of other code than this, which is never found again.
    """
    before = time.time() - older_than * DAY
    current = {stage: {code_version(module) for module in modules} for stage, modules in STAGES.items()}
    for stage in (*STAGES, RAY_FOLDER):
        for folder in sorted(path for path in root.glob(f"{stage}/*") if path.is_dir()):
            if _last_change(folder) > before:
                continue
            if stage == RAY_FOLDER:
                yield Leftover(folder, LEFT_BY_RAY)
            elif not (folder / MANIFEST).is_file():
                yield Leftover(folder, UNFINISHED)
            elif outdated and _code(folder) not in current[stage]:
                yield Leftover(folder, OUTDATED)


def clean(storage: Path, older_than: float, outdated: bool, yes: bool, console: Console) -> int:
    """Print what may go, and remove it where `yes` says so. Registered models and MLflow's files stay.

    Raises ConfigError where a run works in the storage.
    """
    with opened(storage, console, "proser clean") as store:
        found = list(leftovers(store.root, older_than, outdated))
        table = Table("folders", "stage", "why", "MiB", title=str(store.root), title_justify="left", box=None)
        kinds = sorted({(each.path.parent.name, each.reason) for each in found})
        for stage, reason in kinds:
            group = [each for each in found if (each.path.parent.name, each.reason) == (stage, reason)]
            table.add_row(str(len(group)), stage, reason, f"{sum(each.size for each in group) / 2**20:.1f}")
        if not found:
            console.print(f"nothing to remove in {store.root}", highlight=False, soft_wrap=True)
            return 0
        console.print(table, highlight=False)
        if not yes:
            console.print("nothing was removed; --yes removes these folders", highlight=False)
            return 0
        for each in found:
            shutil.rmtree(each.path)
        console.print(f"{len(found)} folders removed", highlight=False)
    return 0


def _code(folder: Path) -> str:
    """The code version in a finished folder's key; empty where its manifest cannot be read."""
    try:
        return str(read_json(folder / MANIFEST)["inputs"].get("code", ""))
    except (OSError, ValueError, KeyError, AttributeError):
        return ""


def _last_change(folder: Path) -> float:
    return max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
