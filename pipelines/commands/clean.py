"""`proser clean`: list (with --yes: delete) unfinished and outdated work."""

import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.table import Table

from pipelines.commands.parsing import parse
from pipelines.console import console, say
from pipelines.storage.opening import open_storage
from pipelines.storage.option import DEFAULT_STORAGE
from pipelines.workflow.requests import StorageFolder
from proser_core.errors import ConfigError
from proser_core.titles import counted

if TYPE_CHECKING:
    from pipelines.workflow.stale_artefacts import StaleArtefact

MAX_LISTED = 20  # folders that are listed without --list-all


@dataclass(frozen=True)
class CleanRequest:
    """List unfinished work that nothing has written to for days, interrupted trainings among it, and Ray's own files;
    with --outdated also results of other code or another Python version. --yes deletes what is listed. Registered
    models and MLflow's files are kept."""

    storage: Annotated[StorageFolder, tyro.conf.arg(help="Storage of the runs, a folder.")] = DEFAULT_STORAGE
    older_than: float = 7.0
    """Keep folders that were written to within this many days."""
    outdated: bool = False
    """Include finished work of other code or another Python version, which others may use where a storage is shared."""
    list_all: bool = False
    """List every folder, not only the first 20."""
    yes: bool = False
    """Delete what is listed."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.older_than) and self.older_than >= 0):
            raise ConfigError(f"--older-than got {self.older_than}; need 0 or more days")


def main(arguments: list[str]) -> int:
    """List, or delete."""
    return clean(parse(CleanRequest, "clean", arguments), console())


def clean(request: CleanRequest, console: Console) -> int:
    """List the folders, and delete them with `yes`. Raises ConfigError for a folder that is no storage or that a run
    uses."""
    from pipelines.workflow.stale_artefacts import is_storage, stale_artefacts  # loads torch: not for --help

    if not request.storage.is_dir():
        raise ConfigError(f"--storage got {request.storage}, which is not a folder; give the storage of a run")
    if not is_storage(request.storage):
        raise ConfigError(
            f"--storage got {request.storage}, which holds files and no work of a run, such as "
            "trials/0123456789abcdef; give the storage of a run"
        )
    with open_storage(request.storage, "proser clean", partial(say, console)) as store:
        stale = stale_artefacts(store.root, request.older_than, request.outdated)
        found = sorted(stale, key=lambda each: (each.stage, each.reason))
        if not found:
            say(console, f"nothing to delete in {store.root}")
            if younger := sum(1 for _ in stale_artefacts(store.root, 0, request.outdated)):
                kept = counted(younger, "folder")
                say(
                    console, f"{kept} written to within {request.older_than:g} days would be listed with --older-than 0"
                )
            return 0
        say(console, str(store.root))
        console.print(_by_kind(found), highlight=False)
        for each in found if request.list_all else found[:MAX_LISTED]:
            say(console, f"  {each.stage}/{each.path.name}: {each.reason}")
        if len(found) > MAX_LISTED and not request.list_all:
            say(console, f"  and {len(found) - MAX_LISTED} more; --list-all lists all of them")
        if not request.yes:
            say(console, "nothing was deleted; --yes deletes these folders")
            return 0
        for each in found:
            shutil.rmtree(each.path)
        say(console, f"{counted(len(found), 'folder')} deleted")
    return 0


def _by_kind(found: Sequence["StaleArtefact"]) -> Table:
    """Number and size of the folders, by stage and reason."""
    table = Table("folders", "stage", "why", "MiB", box=None)
    for stage, reason in dict.fromkeys((each.stage, each.reason) for each in found):
        group = [each for each in found if (each.stage, each.reason) == (stage, reason)]
        table.add_row(str(len(group)), stage, reason, f"{sum(each.size for each in group) / 2**20:.1f}")
    return table
