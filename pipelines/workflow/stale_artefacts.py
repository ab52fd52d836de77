"""Artefacts that may go, by their name, their age and the code in their key."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pipelines.cluster.cluster import RAY_FOLDER
from pipelines.workflow.stage import STAGES, stage_code
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.jobs.own_networks.plans import METHODS_FOLDER, network_code
from proser_core.jobs.spec import PRETRAIN, STATE
from proser_core.store.files import read_json
from proser_core.store.store import KEY_PATTERN, MANIFEST

FOLDERS = (*STAGES, METHODS_FOLDER)
DAY = 86_400
UNFINISHED, INTERRUPTED, LEFT_BY_RAY = "unfinished", "interrupted, resumable", "left by Ray"
OUTDATED = "other code or Python version"  # syntax trees, of which keys are made, differ between Python versions
ARTEFACT = re.compile(KEY_PATTERN)
COPY = re.compile(rf"\.{KEY_PATTERN}\.\d+")  # of an artefact, as `import_artefact` writes it first
RAY_EXPERIMENT = re.compile(rf"{PRETRAIN}|{METHODS_FOLDER}-[0-9]+|(pretrain-|finetune-)?{KEY_PATTERN}(-[0-9]+)?")
"""Names of folders that Ray writes to: of pretrainings, of networks of methods' own, of trainings by several workers,
and of sweeps."""


@dataclass(frozen=True)
class StaleArtefact:
    """A folder that may go, and why."""

    path: Path
    reason: str

    @property
    def stage(self) -> str:
        """The folder of the storage that it lies in."""
        return self.path.parent.name

    @cached_property
    def size(self) -> int:
        """Bytes of its files."""
        return sum(path.stat().st_size for path in self.path.rglob("*") if path.is_file())


def stale_artefacts(root: Path, older_than: float, outdated: bool) -> Iterator[StaleArtefact]:
    """Folders that nothing was written to for `older_than` days: unfinished work, also trainings that the same command
    of the same code would go on with, and what Ray left. With `outdated` also finished work of other code or
    another Python version, which this one never reuses. Folders whose names no run would choose are not ours."""
    before = time.time() - older_than * DAY
    for stage in FOLDERS:
        codes = _codes(stage) if outdated else []
        for folder in _folders(root / stage, ARTEFACT, COPY):
            if _last_change(folder) > before:
                continue
            if COPY.fullmatch(folder.name):
                yield StaleArtefact(folder, UNFINISHED)
            elif not (folder / MANIFEST).is_file():
                yield StaleArtefact(folder, INTERRUPTED if (folder / STATE).is_file() else UNFINISHED)
            elif outdated and _code(folder) not in codes:
                yield StaleArtefact(folder, OUTDATED)
    for folder in _folders(root / RAY_FOLDER, RAY_EXPERIMENT):
        if _last_change(folder) <= before:
            yield StaleArtefact(folder, LEFT_BY_RAY)


def is_storage(root: Path) -> bool:
    """Whether a folder holds work of runs, or nothing but hidden files and empty folders, as one that was emptied."""
    if any(_folders(root / stage, ARTEFACT) for stage in FOLDERS):
        return True
    return all(path.is_dir() or path.name.startswith(".") for path in root.rglob("*"))


def _folders(place: Path, *patterns: re.Pattern[str]) -> list[Path]:
    """The folders in a place with such names, in order. A link is not followed: it leads out of the storage."""
    named = (path for path in place.glob("*") if any(pattern.fullmatch(path.name) for pattern in patterns))
    return sorted(path for path in named if path.is_dir() and not path.is_symlink())


def _codes(stage: str) -> list[Any]:
    """What stands for this code in the keys of a stage's artefacts."""
    if stage == METHODS_FOLDER:
        return [network_code(network) for network in OWN_NETWORKS.values()]
    return [stage_code(stage)]


def _code(folder: Path) -> Any:
    """What stands for the code in a finished folder's key; None where its manifest cannot be read."""
    try:
        return read_json(folder / MANIFEST)["inputs"]["code"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _last_change(folder: Path) -> float:
    return max(path.lstat().st_mtime for path in (folder, *folder.rglob("*")))
