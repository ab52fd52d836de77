"""All that a borrowed GPU should measure, on a CPU with tiny sizes: from the job file to the imported report."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from waiting import PATIENCE_S, until

from benchmarks.gpu_kit import KIT, TIME_OVER, main
from proser_core.jobs.job_folder import OUT
from proser_core.jobs.runner import JOB_FILE

ROOT = Path(__file__).parents[2]
TORCH_ALONE = "import sys\nfor name in ('ray', 'mlflow', 'hamilton', 'pipelines'):\n    sys.modules[name] = None\n"
TINY = ["--pretrain.epochs", "2", "--finetune.epochs", "1", "--cluster.pretrain-workers", "1", "--precision", "fp32"]


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run([sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_it_goes_on_after_each_piece_without_ray_and_what_it_made_is_imported(tmp_path: Path) -> None:
    jobs, alone = tmp_path / "there", tmp_path / "alone"
    for folder in (jobs / "split-0", alone):
        folder.mkdir(parents=True)
    (alone / "sitecustomize.py").write_text(TORCH_ALONE)
    job = ["pipelines.cli", "job", "digits", "--with-task", *TINY, "-o", str(jobs / "split-0" / "JOB.json")]
    done = run(job, tmp_path)
    assert done.returncode == 0, done.stderr
    kit = ["benchmarks.gpu_kit", str(jobs), "--device", "cpu", "--quick"]
    there = {"PYTHONPATH": f"{alone}{os.pathsep}{ROOT}"}
    stopped = run([*kit, "--minutes", "0"], ROOT, **there)
    assert stopped.returncode == TIME_OVER, stopped.stderr
    assert "tests: the time is over; the same command continues" in stopped.stdout
    for _ in range(2):
        done = run(kit, ROOT, **there)
        assert done.returncode == 0, done.stdout + done.stderr
        assert [line for line in done.stdout.splitlines() if line.endswith(": done")] == [
            f"{part}: done" for part in ("tests", "step", "points", "jobs")
        ]
    assert "split-0/JOB.json: finished" in done.stdout
    assert "needs a GPU" in (jobs / f"{KIT}-cpu-quick" / "tests.txt").read_text()
    assert set(json.loads((jobs / f"{KIT}-cpu-quick" / "points.json").read_text())["benchmarks"]) == {"gpu_trials"}
    imported = run(["pipelines.cli", "import", str(jobs / "split-0" / OUT)], tmp_path)
    assert imported.returncode == 0, imported.stderr
    assert "PROSER" in imported.stdout


def test_without_images_the_points_are_left_out_and_a_job_that_cannot_be_read_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    kit = tmp_path / f"{KIT}-cpu"
    for folder in (kit, tmp_path / "job"):
        folder.mkdir()
    (tmp_path / "job" / JOB_FILE).write_text("[]")
    for part in ("tests", "step"):
        (kit / f"{part}.txt").write_text("as it was")
    assert main([str(tmp_path), "--device", "cpu"]) == 1
    printed = capfd.readouterr()
    assert printed.out.splitlines() == ["tests: done", "step: done", "jobs: failed with exit code 2"]
    assert "JOB.json holds a list" in printed.err


@pytest.mark.slow
def test_where_the_kit_is_stopped_no_part_goes_on_alone(tmp_path: Path) -> None:
    own = "import time; time.sleep(300)"  # a process of the part's own
    sleeping = f"""import subprocess, sys
with subprocess.Popen([sys.executable, "-c", {own!r}]):
    open({str(tmp_path / "begun")!r}, "w").close()
"""
    kit = f"""import pathlib, sys, time
from benchmarks.gpu_kit import _run
from proser_core.exit_codes import exit_code_of
place = pathlib.Path({str(tmp_path)!r})
sys.exit(exit_code_of(lambda: _run("step", [sys.executable, "-c", {sleeping!r}], place, time.monotonic() + 600)))
"""
    process = subprocess.Popen([sys.executable, "-c", kit], cwd=ROOT)
    until((tmp_path / "begun").exists, process)
    parts = psutil.Process(process.pid).children(recursive=True)
    assert len(parts) == 2
    process.terminate()
    assert process.wait() == 128 + signal.SIGTERM
    assert psutil.wait_procs(parts, timeout=PATIENCE_S)[1] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "torch sees no GPU here"),
        (["--device", "cpu"], "has no */JOB.json"),
        (["--at-once", "0"], "got --at-once 0; need 1 or more"),
    ],
)
def test_what_cannot_be_measured_is_refused_and_leaves_nothing(
    options: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    if not options:
        (tmp_path / "job").mkdir()
        (tmp_path / "job" / JOB_FILE).write_text("[]")
    before = sorted(tmp_path.rglob("*"))
    assert main([str(tmp_path), *options]) == 2
    assert message in capfd.readouterr().err
    assert sorted(tmp_path.rglob("*")) == before
