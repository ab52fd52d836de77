"""Two runs on one storage: the second is told who works there, before it touches anything."""

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pipeline_runs import tiny_recipe
from rich.console import Console

from pipelines.workflow.requests import SweepRequest
from pipelines.workflow.run import run
from pipelines.workflow.sweeping import sweep
from proser_core.errors import ConfigError
from proser_core.store.lock import LOCK, exclusive_storage


def start_sweep(storage: Path) -> int:
    return sweep(SweepRequest(tiny_recipe(), ("ablation",), (0,), None, storage), Console(file=io.StringIO()))


def start_run(storage: Path) -> int:
    return run(tiny_recipe(), None, storage, None, Console(file=io.StringIO()))


@pytest.mark.parametrize("start", [start_sweep, start_run])
def test_a_storage_in_which_another_sweep_works_is_refused_and_left_alone(
    tmp_path: Path, start: Callable[[Path], int]
) -> None:
    said = rf"proser sweep digits trade_off, process {os.getpid()} on .*; wait for it, or give another folder"
    with exclusive_storage(tmp_path, "proser sweep digits trade_off"), pytest.raises(ConfigError, match=said):
        start(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
