"""What `--storage` names, a folder or the URI of an object store, and opening it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from proser_core.errors import ConfigError
from proser_core.store.lock import exclusive_storage
from proser_core.store.store import Store

DEFAULT_STORAGE = Path("proser-storage")


def parse_storage(storage: str) -> Path | str:
    """The folder that --storage names, or the URI."""
    return storage if "://" in storage else Path(storage)


def parse_folder(storage: str) -> Path:
    """The folder that --storage names. Raises ConfigError for a URI, which only `run`, `sweep` and `reproduce` take."""
    if "://" in storage:
        raise ConfigError(f"--storage got {storage}; a URI is for proser run, sweep and reproduce, give a folder here")
    return Path(storage)


@contextmanager
def open_storage(storage: Path | str, work: str, say: Callable[[str], None]) -> Iterator[Store]:
    """Open a folder, or the storage behind a URI, and lock it: one command at a time works there.

    `work` names the command to whoever comes second; `say` prints a line to the user. Raises ConfigError for a storage
    that cannot be used, or in which another command works.
    """
    if isinstance(storage, str):
        from pipelines.storage.mirror import open_mirror  # with pyarrow, which `--help` does not need

        with open_mirror(storage, work, say) as store:
            yield store
        return
    store = Store(storage, announce=say)
    with exclusive_storage(store.root, work):
        yield store
