"""Freed memory stays with the process."""

import subprocess
import sys

import pytest

FAULTS_OF_LATER_STEPS = """
import resource, sys
import torch
from proser_core.memory import keep_freed_memory
if sys.argv[1] == "keep":
    assert keep_freed_memory()
def step():
    blocks = [torch.ones(size << 20, dtype=torch.uint8) for size in range(1, 30)]
    del blocks
for _ in range(3):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(argument: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", FAULTS_OF_LATER_STEPS, argument], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc only")
def test_large_blocks_are_reused_without_page_faults() -> None:
    assert faults("keep") * 10 < faults("leave")
