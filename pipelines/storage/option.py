"""What the option `--storage` names: a folder, or the URI of an object store."""

import os
import re
from pathlib import Path

from proser_core.errors import ConfigError

DEFAULT_STORAGE = Path("proser-storage")


def parse_storage(storage: str) -> Path | str:
    """The folder that --storage names, with ~ for the home directory, or the URI. Raises ConfigError for an empty name,
    because the working directory is `.`, and for a URI that lacks a slash."""
    if not storage:
        raise ConfigError("--storage got an empty name; need a folder, `.` for this one, or the URI of an object store")
    if "://" in storage:
        return storage
    lacking = re.match(r"(\w[\w+.-]+:)/", storage)
    if lacking:
        slashes = "///" if lacking[1] == "file:" else "//"  # a file has no host
        uri = f"{lacking[1]}{slashes}{storage[lacking.end() :]}"
        raise ConfigError(f"--storage got {storage}; give {uri} for a URI, or ./{storage} for a folder of that name")
    return Path(os.path.expanduser(storage))  # a shell leaves ~ in --storage=~/x; of no user it stays


def parse_folder(storage: str) -> Path:
    """The folder that --storage names. Raises ConfigError for a URI, which other commands take."""
    found = parse_storage(storage)
    if isinstance(found, str):
        raise ConfigError(
            f"--storage got {storage}; a URI is for proser run, sweep, reproduce and promote, give a folder here"
        )
    return found
