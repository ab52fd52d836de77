"""A place for sweeps, with two spaces that share a point."""

from pathlib import Path

import pytest
from pipeline_runs import RunFolder, write_space
from sweep_runs import SPACES


@pytest.fixture(scope="module")
def folder(run_folder: RunFolder, spaces: Path) -> RunFolder:
    for name, finetune in SPACES.items():
        write_space(spaces, name, finetune)
    return run_folder
