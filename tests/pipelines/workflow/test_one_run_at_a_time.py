"""Two runs on one storage: the second is told who works there, before it touches anything."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pipeline_runs import printed
from training_jobs import tiny_recipe

from pipelines.commands.run import run_recipe
from pipelines.workflow.requests import RunRequest, SweepRequest
from pipelines.workflow.sweeping import sweep
from proser_core.errors import ConfigError
from proser_core.store.lock import LOCK, exclusive_storage

STARTS: dict[str, Callable[[Path], Any]] = {
    "run": lambda storage: printed(run_recipe, RunRequest(tiny_recipe(), None, storage)),
    "sweep": lambda storage: printed(sweep, SweepRequest(tiny_recipe(), ("ablation",), (0,), None, storage)),
}


@pytest.mark.parametrize("command", STARTS)
def test_a_storage_in_which_another_sweep_works_is_refused_and_left_alone(tmp_path: Path, command: str) -> None:
    said = rf"proser sweep digits trade_off, process {os.getpid()} on .*; wait for it, or give another folder"
    with exclusive_storage(tmp_path, "proser sweep digits trade_off"), pytest.raises(ConfigError, match=said):
        STARTS[command](tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
