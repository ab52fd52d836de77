"""Files for people: those of a report by name, and those that a user asks for by an option.

The latter are refused before any work where they cannot be written, and written whole.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from proser_core.errors import ConfigError, StorageError
from proser_core.store.files import FULL, beside_of, write_atomically

RESULTS, RECIPE = "results.md", "recipe.json"  # of a report


def check_output(path: Path | None, option: str, endings: Iterable[str]) -> None:
    """Raises ConfigError for a path with none of the endings, or one that cannot be written."""
    if path is None:
        return
    try:
        if path.suffix not in endings or not path.parent.is_dir() or path.is_dir():
            raise ConfigError(
                f"{option} got {path}; need a file in a folder that exists, ending in {', '.join(endings)}"
            )
        beside = beside_of(path)  # as the file itself will be written, before it takes its place
        beside.touch()
        beside.unlink()
    except OSError as error:
        raise ConfigError(f"{option} got {path}, which cannot be written ({error.strerror}); give another") from error


def write_output(path: Path, content: bytes) -> None:
    """Write the whole file in one step. Raises StorageError where its disk is full."""
    with full_disk_of_output_named(path):
        write_atomically(path, content)


@contextmanager
def full_disk_of_output_named(path: Path) -> Iterator[None]:
    """Turn the system's error of a full disk into a StorageError."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise StorageError(f"the disk of {path} is full; free some space, then give the command again") from error
