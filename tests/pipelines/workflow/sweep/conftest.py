"""A place for sweeps, with two spaces that share a point, and a sweep of them, once and again."""

from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import Run
from pipeline_runs import RunFolder, printed, write_space
from sweep_runs import SPACES, Done, request, rows_of, stamps

from pipelines.workflow.sweeping import sweep


@pytest.fixture(scope="module")
def folder(run_folder: RunFolder, spaces: Path) -> RunFolder:
    for name, finetune in SPACES.items():
        write_space(spaces, name, finetune)
    return run_folder


@pytest.fixture(scope="module")
def swept(folder: RunFolder) -> tuple[Done, list[dict[str, Any]], dict[str, int], list[Run]]:
    done = printed(sweep, request(folder))
    return done, rows_of(folder), stamps(folder), folder._runs()


@pytest.fixture(scope="module")
def again(swept: object, folder: RunFolder) -> tuple[Done, dict[str, int], list[Run]]:
    return printed(sweep, request(folder, resume=True)), stamps(folder), folder._runs()
