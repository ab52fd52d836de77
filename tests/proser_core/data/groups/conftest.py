"""Images in bursts, which the tests of groups share."""

from pathlib import Path

import pytest
from scenes import write_scenes


@pytest.fixture(scope="session")
def bursts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scenes(tmp_path_factory.mktemp("bursts"))
