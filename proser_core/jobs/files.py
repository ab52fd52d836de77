"""Files that are whole or not there: written beside their place, then moved into it."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` in one step; a reader or a crash never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def write_json(path: Path, value: Any) -> None:
    """Indented JSON, atomically."""
    write_atomically(path, json.dumps(value, indent=1).encode())


def read_json(path: Path) -> Any:
    """The value in a JSON file."""
    return json.loads(path.read_text())


def sha256_of(path: Path) -> str:
    """Digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
