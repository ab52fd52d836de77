"""SHA-256 of values and of files."""

import hashlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

SETTLED = 2_000_000_000
"""Nanoseconds after which a file's time of change tells a later change apart, on any file system."""
_known: dict[Path | str, tuple[tuple[int, ...], str]] = {}  # by path: the file's status and digest


def digest_of(*values: Any) -> str:
    """SHA-256 of JSON-able values and dataclasses; equal values give equal digests on every machine."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, default=asdict).encode()).hexdigest()


def sha256_of(path: Path | str) -> str:
    """SHA-256 of a file's content. A process reads the file again once its inode, size or a time of change differs."""
    with open(path, "rb") as file:
        about, now = os.fstat(file.fileno()), time.time_ns()
        status = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
        if path in _known and _known[path][0] == status:
            return _known[path][1]
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if now - about.st_ctime_ns >= SETTLED:
        _known[path] = status, digest
    return digest
