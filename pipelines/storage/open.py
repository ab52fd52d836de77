"""What the option `--storage` names: a folder, or the URI of an object store."""

from pathlib import Path

from proser_core.errors import ConfigError

DEFAULT_STORAGE = Path("proser-storage")


def parse_storage(storage: str) -> Path | str:
    """The folder that --storage names, or the URI. Raises ConfigError for an empty name: the working directory is
    `.`"""
    if not storage:
        raise ConfigError("--storage got an empty name; need a folder, `.` for this one, or the URI of an object store")
    return storage if "://" in storage else Path(storage)


def parse_folder(storage: str) -> Path:
    """The folder that --storage names. Raises ConfigError for a URI, which only `run`, `sweep` and `reproduce` take."""
    found = parse_storage(storage)
    if isinstance(found, str):
        raise ConfigError(f"--storage got {storage}; a URI is for proser run, sweep and reproduce, give a folder here")
    return found
