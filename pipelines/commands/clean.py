"""`proser clean`: lists what a storage holds that no run will ask for again, and removes it where told to."""

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from pipelines.console import say
from pipelines.storage.open import open_storage
from pipelines.workflow.stale_artefacts import Leftover, is_storage, leftovers
from proser_core.errors import ConfigError

LISTED = 20  # folders that are named one by one


def clean(storage: Path, older_than: float, outdated: bool, yes: bool, console: Console, list_all: bool = False) -> int:
    """Print what may go, and remove it where `yes` says so. Registered models and MLflow's files stay.

    Raises ConfigError for a folder that is no storage, and where a run works in it.
    """
    if not is_storage(storage):
        raise ConfigError(
            f"--storage got {storage}, which holds files and no work of a run, such as trials/0123456789abcdef; "
            "give the storage of a run"
        )
    with open_storage(storage, "proser clean", partial(say, console)) as store:
        found = sorted(leftovers(store.root, older_than, outdated), key=lambda each: (each.stage, each.reason))
        if not found:
            say(console, f"nothing to remove in {store.root}")
            return 0
        say(console, str(store.root))
        console.print(_by_kind(found), highlight=False)
        for each in found if list_all else found[:LISTED]:
            say(console, f"  {each.stage}/{each.path.name}: {each.reason}")
        if len(found) > LISTED and not list_all:
            say(console, f"  and {len(found) - LISTED} more; --list-all names them all")
        if not yes:
            say(console, "nothing was removed; --yes removes these folders")
            return 0
        for each in found:
            shutil.rmtree(each.path)
        say(console, f"{len(found)} folders removed")
    return 0


def _by_kind(found: Sequence[Leftover]) -> Table:
    """How many of each stage may go for each reason, and their size."""
    table = Table("folders", "stage", "why", "MiB", box=None)
    for stage, reason in dict.fromkeys((each.stage, each.reason) for each in found):
        group = [each for each in found if (each.stage, each.reason) == (stage, reason)]
        table.add_row(str(len(group)), stage, reason, f"{sum(each.size for each in group) / 2**20:.1f}")
    return table
