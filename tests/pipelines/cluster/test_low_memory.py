"""A machine that is low on memory: trainings begin again with fewer at a time, and what stays so costs one line."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ray import tune
from training_jobs import tiny_recipe, training_job

from pipelines.cluster import cluster, tune_jobs
from pipelines.cluster.attempts import RETRIES, failure_reason
from pipelines.cluster.cluster import Cluster
from pipelines.cluster.train_worker import CROWDED
from pipelines.storage.storage import Storage
from proser_core.config import ClusterConfig, to_json
from proser_core.errors import ClusterError
from proser_core.jobs.spec import (
    DEVELOPMENT_SCORES,
    FAILURE,
    SELECTION_METRIC,
    Job,
    read_failure,
    score_key,
    write_failure,
)
from proser_core.store.store import Artefact, write_manifest

MESSAGE = (
    "1 worker(s) were killed due to the node running low on memory. Memory on the node was 23.1GB used / 23.5GB limit\n"
    "Selected to kill: (Task: job ID=01000000, pid=20868, actual memory used=1.25GB, worker ID=03)"
)

FULL = {"RAY_memory_usage_threshold": "0.001", "RAY_memory_monitor_refresh_ms": "250"}
"""The environment of a Ray whose machine always is low on memory."""


def jobs_that_pause(folder: Path, names: tuple[str, ...]) -> list[Job]:
    return [Job("finetune", to_json(tiny_recipe()), "", str(folder / name), pause=2) for name in names]


def write_score(folder: Path) -> None:
    """That of a trial of the tiny recipe, which paused after two epochs."""
    row = {"epochs": 2.0, SELECTION_METRIC: 0.5, "scored_by": score_key(tiny_recipe().calibration)}
    (folder / DEVELOPMENT_SCORES).write_text(json.dumps(row))


def test_the_reason_says_what_the_process_held_and_what_to_do() -> None:
    reason = failure_reason(RuntimeError(MESSAGE))
    assert reason.startswith("Ray ended one of its processes (1.25 GB), because the machine was low on memory")
    assert "--cluster.max-concurrent" in reason


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_trainings_that_do_not_fit_side_by_side_run_one_at_a_time(
    workers: int,
    task: Artefact,
    closed_set_weights: Path,
    tmp_path: Path,
    own_ray: None,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    busy, met, message = tmp_path / "busy", tmp_path / "met", MESSAGE

    def crowded(config: dict[str, Any], **_: Any) -> None:
        """Needs the machine for itself."""
        folder = Path(config["job"]["folder"])
        busy.mkdir(exist_ok=True)
        mine = busy / folder.name
        mine.touch()
        try:
            time.sleep(2)
            if len(list(busy.iterdir())) > 1:
                met.touch()
                time.sleep(2)  # so that the other sees it too
                if workers == 1:
                    raise RuntimeError(message)
                tune.report({CROWDED: message})
                return
            write_manifest(folder, {})
        finally:
            mine.unlink()

    monkeypatch.setattr(tune_jobs, "run_single_trial" if workers == 1 else "run_distributed_trial", crowded)
    monkeypatch.setattr(Cluster, "concurrent_jobs", lambda *_: 2)
    jobs = [training_job(task, tmp_path / name, tiny_recipe(), weights=closed_set_weights) for name in ("one", "two")]
    for job in jobs:
        Path(job.folder).mkdir()
    Cluster(ClusterConfig(), Storage(tmp_path / "storage")).run_jobs(jobs, workers, "crowded")
    assert met.exists(), "they never ran side by side"
    assert [sorted(path.name for path in Path(job.folder).iterdir()) for job in jobs] == [["manifest.json"]] * 2
    assert "Last result" not in capfd.readouterr().out  # of Tune, which has no epoch to print


def test_trainings_that_tune_gave_up_begin_again_and_fail_with_the_reason_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = jobs_that_pause(tmp_path, ("done", "paused", "one", "two"))
    side_by_side = []

    def given_up(tuner: tune.Tuner) -> None:
        """As Ray 2.60's Tune ends where Ray's memory monitor ends a trial in mid-training."""
        side_by_side.append(tuner._local_tuner._tune_config.max_concurrent_trials)
        (tmp_path / "done").mkdir(exist_ok=True)
        write_manifest(tmp_path / "done", {})
        write_score(tmp_path / "paused")
        raise RuntimeError(f"Caught unexpected exception: {MESSAGE}")

    monkeypatch.setattr(tune_jobs, "MEMORY_PAUSE_S", 0.0)
    monkeypatch.setattr(tune.Tuner, "fit", given_up)
    for job in jobs[1:]:
        Path(job.folder).mkdir()
    Cluster(ClusterConfig(), Storage(tmp_path / "storage"), _nodes=[{"CPU": 4.0}]).run_jobs(jobs, 1, "given-up")
    assert side_by_side == [4, 2, *[1] * (RETRIES + 1)]
    assert not any((tmp_path / name / FAILURE).exists() for name in ("done", "paused"))
    assert all("low on memory" in (tmp_path / name / FAILURE).read_text() for name in ("one", "two"))


def test_one_that_has_no_room_even_alone_does_not_keep_the_others_from_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = jobs_that_pause(tmp_path, ("large", "one", "two"))

    def in_turn(tuner: tune.Tuner) -> list[tune.Result]:
        for text in tuner._local_tuner.param_space["job"]["grid_search"]:
            folder = Path(json.loads(text)["folder"])
            folder.mkdir(exist_ok=True)
            if folder.name == "large":
                raise RuntimeError(f"Caught unexpected exception: {MESSAGE}")
            write_manifest(folder, {})
        return []

    monkeypatch.setattr(tune_jobs, "MEMORY_PAUSE_S", 0.0)
    monkeypatch.setattr(tune.Tuner, "fit", in_turn)
    Cluster(ClusterConfig(), Storage(tmp_path / "storage"), _nodes=[{"CPU": 1.0}]).run_jobs(jobs, 1, "large")
    reasons = {Path(job.folder).name: read_failure(Path(job.folder)) for job in jobs}
    assert "low on memory" in reasons.pop("large")
    assert reasons == {"one": "", "two": ""}


def test_trainings_without_memory_whose_time_is_up_have_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = jobs_that_pause(tmp_path, ("one", "two"))

    def given_up(tuner: tune.Tuner) -> None:
        raise RuntimeError(f"Caught unexpected exception: {MESSAGE}")

    monkeypatch.setattr(tune.Tuner, "fit", given_up)
    cluster = Cluster(ClusterConfig(), Storage(tmp_path / "storage"), _nodes=[{"CPU": 4.0}])
    cluster.run_jobs(jobs, 1, "given-up", max_seconds=1e-9)
    assert [read_failure(Path(job.folder)) for job in jobs] == ["", ""]


@pytest.mark.parametrize("limit", [0.0, 60.0, 1e-9])
def test_a_training_that_ends_without_an_outcome_has_failed_unless_its_time_is_up(
    limit: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = jobs_that_pause(tmp_path, ("paused", "failed", "silent"))

    def end(tuner: tune.Tuner) -> list[tune.Result]:
        for job in jobs:
            Path(job.folder).mkdir()
        write_score(tmp_path / "paused")
        write_failure(tmp_path / "failed", "it diverged")
        return []

    monkeypatch.setattr(tune.Tuner, "fit", end)
    cluster = Cluster(ClusterConfig(), Storage(tmp_path / "storage"), _nodes=[{"CPU": 4.0}])
    cluster.run_jobs(jobs, 1, "silent", max_seconds=limit)
    reasons = [read_failure(Path(job.folder)) for job in jobs]
    assert reasons[:2] == ["", "it diverged"]
    assert reasons[2].startswith("the worker exited without reporting an error") == (limit != 1e-9)


@pytest.mark.slow
def test_a_machine_without_memory_costs_one_line_and_no_traceback(tmp_path: Path) -> None:
    environment = os.environ | FULL | {"MLFLOW_TRACKING_URI": f"sqlite:///{tmp_path / 'mlflow.db'}"}
    command = [sys.executable, "-m", "pipelines.cli", "run", "digits", "--pretrain.epochs", "1", "--space", ""]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("proser: pretraining of class split 0 failed: Ray ended one of its processes")
    assert f"low on memory, {RETRIES + 1} times; free some memory" in line


@pytest.mark.slow
def test_a_plan_that_a_machine_without_memory_cannot_measure_is_refused(
    tmp_path: Path, own_ray: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in FULL.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cluster, "MEMORY_PAUSE_S", 0.0)
    with pytest.raises(ClusterError, match=rf"not be measured: Ray ended .* {RETRIES + 1} times; free some memory"):
        Cluster(ClusterConfig(), Storage(tmp_path)).call_on_workers(lambda: time.sleep(60), (), 2)
