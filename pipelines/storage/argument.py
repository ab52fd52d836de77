"""What `--storage` may be: a folder, or for the commands that train also a URI."""

import re
from pathlib import Path

from proser_core.errors import ConfigError

DEFAULT_STORAGE = Path("proser-storage")


def place(storage: str) -> Path | str:
    """The folder that --storage names, or the URI."""
    return storage if "://" in storage else Path(storage)


def folder(storage: Path) -> Path:
    """Raises ConfigError for a URI, which only `run`, `sweep` and `reproduce` work behind."""
    if re.match("[a-z0-9+]{2,}:/", str(storage)):
        raise ConfigError(f"--storage got {storage}; a URI is for proser run, sweep and reproduce, give a folder here")
    return storage
