"""Sweeps of the tiny recipe over class splits of digits, and what they leave in their storage."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline_runs import RunFolder, quick_recipe

from pipelines.workflow.requests import SweepRequest
from proser_core.config import CalibrationConfig

SPACES = {
    "betas": '{"beta": tune.grid_search([1.0, 2.0])}',
    "pairs": 'tune.grid_search([{"beta": 2.0}, {"beta": 2.0, "gamma": 1.0}])',  # one point of the other, and its own
}
RATE = 0.8  # of known images that are kept
Done = tuple[int, str]


def request(folder: RunFolder, **options: Any) -> SweepRequest:
    asked = {"spaces": ("betas", "pairs"), "split_indices": (0, 1), "data_dir": None, "storage": folder.storage}
    recipe = replace(quick_recipe(), model_name="ensembles", calibration=CalibrationConfig(target_rate=RATE))
    return SweepRequest(**{"recipe": recipe, **asked, **options})


def stamps(folder: RunFolder) -> dict[str, int]:
    """Time of change of every network: one that was trained again has another."""
    return {path.parent.name: path.stat().st_mtime_ns for path in folder.storage.glob("*/*/weights.safetensors")}


def rows_of(folder: RunFolder) -> list[dict[str, Any]]:
    """The rows of the newest sweep."""
    newest = max(folder.storage.glob("sweep/*/trials.json"), key=lambda path: path.stat().st_mtime_ns)
    return json.loads(newest.read_text())


def task_of(folder: RunFolder, row: dict[str, Any]) -> Path:
    """The prepared images of a row's class split."""
    for path in folder.storage.glob("prepare/*/manifest.json"):
        if json.loads(path.read_text())["inputs"]["data"]["split_index"] == row["split_index"]:
            return path.parent
    raise AssertionError(row)
