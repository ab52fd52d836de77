"""Memory of a process, and what it holds of files."""

import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.harness.process_memory import mapped, memory


def test_memory_of_mapped_files_is_told_from_the_rest(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", np.ones(1 << 21, np.uint8))
    before = mapped(os.getpid(), tmp_path)
    images = np.load(tmp_path / "images.npy", mmap_mode="r")
    assert images.sum() == 1 << 21
    resident, shared = memory(os.getpid())
    assert before == 0
    assert mapped(os.getpid(), tmp_path) == pytest.approx(2, abs=0.1)
    (tmp_path / "link").symlink_to(tmp_path)
    assert mapped(os.getpid(), tmp_path / "link") == mapped(os.getpid(), tmp_path)
    assert resident >= shared > 2
