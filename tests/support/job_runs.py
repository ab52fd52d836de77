"""Small JOB.json files on the embedded digits, and the runner in this process, or the command of one of its own."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import proser_core
from proser_core.job import main

ROOT = Path(proser_core.__file__).parent.parent
RECIPE: dict[str, Any] = {
    "name": "tiny",
    "precision": "fp32",
    "data": {
        "name": "digits",
        "image_size": 8,
        "num_known": 3,
        "unknown_settings": [1, 3],
        "development": "held-out-2",
        "val_fraction": 0.2,
        "flip": False,
        "padding": 1,
    },
    "network": {"dropout": 0.2},
    "pretrain": {"epochs": 2, "batch_size": 64, "lr": 0.05},
    "finetune": {"epochs": 2, "batch_size": 64, "schedule": "cosine"},
    "calibration": {"target_rate": 0.8},
}
CONTROL = {"objective": "cross_entropy"}
FINETUNES: list[Any] = [CONTROL, {}, {"start": "scratch"}]


def write_job(folder: Path, **changes: Any) -> Path:
    """A JOB.json with the tiny recipe, in which top-level fields are replaced; None leaves one out."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {"recipe": RECIPE, "finetunes": FINETUNES, **changes}
    path = folder / "JOB.json"
    path.write_text(json.dumps({name: value for name, value in values.items() if value is not None}))
    return path


def run_here(folder: Path, out: Path, **changes: Any) -> int:
    """Exit code of the runner in this process, with a job file in `folder`."""
    return main([str(write_job(folder, **changes)), str(out)])


def command(job: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "proser_core.job", str(job), str(out)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def digests(out: Path) -> dict[str, dict[str, str]]:
    """Digests of the files of every training, by stage and key."""
    manifests = [path for stage in ("pretrain", "trials") for path in out.glob(f"{stage}/*/manifest.json")]
    return {path.parent.relative_to(out).as_posix(): json.loads(path.read_text())["files"] for path in manifests}
