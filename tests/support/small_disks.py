"""A disk that only one process sees, for tests of what happens where one is full or does not show a folder."""

import subprocess
from pathlib import Path

import pytest


def with_disk_at(place: Path, size: str) -> tuple[str, ...]:
    """Words before a command, which then finds an empty disk of this size at `place`. Skips the test on a machine that
    does not let it mount one."""
    words = ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o size={size} none {place} && exec "$@"', "sh")
    if subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("a disk of its own needs the right to mount")
    return words
