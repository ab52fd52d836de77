"""All trainings of a JOB.json in one process: what they leave, and that nothing is done twice."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from frozen_features import weights_of_timm
from job_runs import CONTROL, FINETUNES, RECIPE, command, digests, environment, run_here, write_job
from waiting import PATIENCE_S, started, until

from proser_core.digests import sha256_of
from proser_core.errors import CalibrationError, StorageError
from proser_core.job import main
from proser_core.jobs import any_job, spec
from proser_core.jobs.job_file import read_job_file
from proser_core.jobs.trials import plan_trials
from proser_core.jobs.worker import run_job
from proser_core.networks import pretrained
from proser_core.processor import hardware
from proser_core.recognition.scores import MaxSoftmaxProbability
from proser_core.store.files import read_json
from proser_core.store.store import Store, load_if_complete

EPOCHS = 12
LONG = {"recipe": {**RECIPE, "finetune": {**RECIPE["finetune"], "epochs": EPOCHS}}, "finetunes": [{"beta": 2}]}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, subprocess.CompletedProcess[str]]:
    """A job file, its OUT, and the process that ran it."""
    folder = tmp_path_factory.mktemp("runner")
    job, out = write_job(folder), folder / "out"
    options = {"capture_output": True, "text": True, "env": environment(), "cwd": folder}
    return job, out, subprocess.run(command(job, out), **options)


@pytest.fixture(scope="module")
def out(done: tuple) -> Path:
    return done[1]


@pytest.fixture
def copied(out: Path, tmp_path: Path) -> Path:
    """A copy of OUT, to go on in."""
    return shutil.copytree(out, tmp_path / "out")


@pytest.fixture(scope="module")
def undisturbed(out: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OUT after the long job, which began with its pretraining there."""
    folder = tmp_path_factory.mktemp("undisturbed")
    long = shutil.copytree(out, folder / "out")
    assert run_here(folder, long, **LONG) == 0
    return long


def results_of(out: Path) -> dict[str, Any]:
    return json.loads((out / "results.json").read_text())


def methods_printed(text: str) -> dict[str, list[str]]:
    """By training, the methods that have a row in the closing table."""
    rows: dict[str, list[str]] = {}
    training = ""
    for line in text.split("\n\n")[0].splitlines()[1:]:
        if line.startswith("  "):
            rows[training].append(line[2:].split("  ")[0])
        else:
            training = line
            rows[training] = []
    return rows


def test_it_is_clean_and_ends_with_a_table_and_where_all_is(done: tuple) -> None:
    _, out, process = done
    assert process.returncode == 0, process.stderr
    assert "1 unknown" in process.stdout
    rows = methods_printed(process.stdout)
    assert rows["pretrained net"] == ["MSP", "MaxLogit", "OpenMax"]
    assert rows["CE control"] == ["MSP", "MaxLogit"]  # OpenMax is fitted to a pretraining's logits
    assert any("start=scratch" in name and "PROSER" in methods for name, methods in rows.items())
    assert f"proser import {out}" in process.stdout
    assert "left" in process.stderr


def test_every_training_has_weights_logits_a_curve_and_a_manifest(out: Path) -> None:
    trainings = digests(out)
    assert len(trainings) == 1 + len(FINETUNES)
    for files in trainings.values():
        assert files.keys() == {spec.WEIGHTS, spec.LOGITS, spec.EPOCHS}


def test_every_training_knows_the_seconds_of_its_epochs_and_on_what_it_ran(out: Path) -> None:
    """Those of the workers, not of a run that scores and waits beside them."""
    for stage in ("pretrain", "trials"):
        manifests = [read_json(path) for path in (out / stage).rglob("manifest.json")]
        assert manifests
        assert {manifest["made_on"] for manifest in manifests} == {hardware(uses_gpu=False)}
        assert all(manifest["seconds"] > 0 for manifest in manifests)


def test_results_have_the_metrics_of_every_training_by_name_and_method(out: Path) -> None:
    trainings = results_of(out)["trainings"]
    assert list(trainings)[:2] == ["pretrained net", "CE control"]
    for entry in trainings.values():
        assert (out / entry["folder"] / "manifest.json").is_file()
        for metrics in entry["methods"].values():
            assert 0 <= metrics["test/unknown_3/auroc"] <= 1
            assert metrics["val/known_rate"] == pytest.approx(0.8, abs=0.01), "the recipe's target rate"
    assert "PROSER" in trainings["start=pretrained"]["methods"]


def test_a_second_run_trains_nothing_and_changes_no_file(done: tuple, capsys: pytest.CaptureFixture[str]) -> None:
    job, out, _ = done
    stages = [path for stage in ("prepare", "pretrain", "trials") for path in (out / stage).rglob("*")]
    before = {path: path.stat().st_mtime_ns for path in stages}
    assert {path.name for path in before} >= {"manifest.json", "logits.npz", "task.json"}
    assert main([str(job), str(out)]) == 0
    printed = capsys.readouterr()
    assert "Trained now: 0." in printed.out
    assert "epoch" not in printed.err
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_a_fine_tune_more_trains_that_one_alone(
    out: Path, copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(tmp_path, copied, finetunes=[*FINETUNES, {"gamma": 1}]) == 0
    assert "Trained now: 1." in capsys.readouterr().out
    assert digests(out).items() <= digests(copied).items()


def test_it_is_what_the_worker_of_the_pipeline_gives_under_the_same_key(done: tuple, tmp_path: Path) -> None:
    job, out, _ = done
    parsed, results = read_job_file(job), results_of(out)
    task = load_if_complete(out / "prepare" / results["task"])
    pretrained = load_if_complete(out / results["trainings"]["pretrained net"]["folder"])
    assert task is not None
    assert pretrained is not None
    trials = plan_trials(parsed.recipe, parsed.finetunes, task, pretrained, Store(tmp_path), code=parsed.code.train)
    trained = digests(out)
    assert {f"trials/{trial.key}" for trial in trials} < trained.keys()
    for trial in trials:
        run_job(trial.job(task, pretrained), lambda metrics: None)
        for name in (spec.LOGITS, spec.WEIGHTS):
            assert sha256_of(trial.folder / name) == trained[f"trials/{trial.key}"][name]


@pytest.mark.slow
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_stopped_in_a_training_comes_out_as_one_that_was_not(
    copied: Path, undisturbed: Path, tmp_path: Path, kill: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    job, stopped = write_job(tmp_path, **LONG), copied

    def half_done() -> list[Path]:
        return [path for path in stopped.glob("trials/*/state.pt") if len(spec.read_epochs(path.parent)) >= 2]

    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    with started(command(job, stopped), env=environment(), **options) as process:
        rows = until(half_done, process, pause_s=0.01)
        os.kill(process.pid, kill)
        _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == (-signal.SIGKILL if kill == signal.SIGKILL else 130)
    if kill == signal.SIGINT:
        assert error.strip().endswith("continues from the last finished epoch")
    assert 2 <= len(spec.read_epochs(rows[0].parent)) < EPOCHS
    assert main([str(job), str(stopped)]) == 0
    assert "going on after epoch" in capsys.readouterr().err
    assert digests(stopped) == digests(undisturbed)


def test_a_fine_tune_that_diverges_is_named_and_the_others_go_on(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_here(tmp_path, copied, finetunes=[{"gamma": 1e38}, CONTROL]) == 1
    printed = capsys.readouterr()
    assert "must stay finite" in printed.err
    assert "MSP" in methods_printed(printed.out)["CE control"]
    assert results_of(copied)["trainings"]["beta=1 gamma=1e+38 C=5 alpha=2"]["failure"]


def test_a_fine_tune_without_memory_is_named_and_the_others_go_on(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail_for_two(job: spec.Job, notify: Any) -> None:
        if job.recipe["finetune"]["beta"] == 2:
            raise torch.OutOfMemoryError("out of memory.\nmuch more")
        run_job(job, notify)

    monkeypatch.setattr(any_job, "run_any", fail_for_two)
    assert run_here(tmp_path, copied, finetunes=[{"beta": 2}, {"beta": 3}]) == 1
    printed = capsys.readouterr()
    assert "failed: [1/2] beta=2: out of memory." in printed.err
    assert "much more" not in printed.err
    trainings = results_of(copied)["trainings"]
    assert trainings["beta=2"]["failure"].startswith("out of memory.")
    methods = trainings["beta=3"]["methods"]
    assert methods.keys() == {"PROSER", "PROSER, p(unknown)", "PROSER, MaxLogit"}


def test_a_full_disk_ends_the_run(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begun: list[float] = []

    def fill_the_disk(job: spec.Job, notify: Any) -> None:
        begun.append(job.recipe["finetune"]["beta"])
        raise StorageError("the disk is full")

    monkeypatch.setattr(any_job, "run_any", fill_the_disk)
    assert run_here(tmp_path, copied, finetunes=[{"beta": 2}, {"beta": 3}]) == 1
    assert begun == [2]
    assert "the disk is full" in capsys.readouterr().err
    assert not list(copied.glob("trials/*/failure.txt"))


def test_a_method_that_cannot_be_calibrated_leaves_its_reason(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(score: Any, logits: Any) -> Any:
        raise CalibrationError("no bias")

    monkeypatch.setattr(MaxSoftmaxProbability, "__call__", refuse)
    assert run_here(tmp_path, copied) == 1
    entry = results_of(copied)["trainings"]["pretrained net"]
    assert entry["failure"] == "MSP: no bias"
    assert entry["methods"].keys() == {"MaxLogit", "OpenMax"}
    assert "failed: pretrained net: MSP: no bias" in capsys.readouterr().err


def test_a_fine_tune_that_the_decided_features_do_not_allow_is_refused_before_any_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No GPU is needed to decide for one."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(pretrained, "MANY_IMAGES", 1)
    network = {"backbone": "timm:test_efficientnet", "weights_file": str(weights_of_timm(tmp_path))}
    data = {**RECIPE["data"], "image_size": 32}
    recipe = {**RECIPE, "data": data, "network": network, "cluster": {"gpus_per_worker": 1}}
    assert run_here(tmp_path, tmp_path / "out", recipe=recipe, finetunes=[{}, {"start": "scratch"}]) == 2
    assert "finetunes[1]: network.features is head-first, and with finetune.start scratch" in capsys.readouterr().err
    assert not (tmp_path / "out/JOB.json").exists()


@pytest.fixture
def carried(out: Path, tmp_path: Path) -> Path:
    """The prepared task, in a folder of its own."""
    return shutil.copytree(out / "prepare" / results_of(out)["task"], tmp_path / "carried")


def test_a_prepared_task_is_taken_as_it_is(out: Path, copied: Path, carried: Path, tmp_path: Path) -> None:
    shutil.rmtree(copied / "prepare")
    assert run_here(tmp_path, copied, task=str(carried)) == 0
    assert (copied / "prepare" / results_of(out)["task"] / "manifest.json").is_file()
    assert digests(copied) == digests(out)


def of_other_code(carried: Path) -> None:
    manifest = read_json(carried / "manifest.json")
    manifest["inputs"]["code"] = "other"
    (carried / "manifest.json").write_text(json.dumps(manifest))


def of_other_groups(carried: Path) -> None:
    manifest = read_json(carried / "manifest.json")
    manifest["inputs"]["data"]["group_near_duplicates"] = False
    (carried / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("change", "split_index", "reason"),
    [
        (of_other_code, 0, "was prepared by other code"),
        (of_other_code, 1, "was prepared by other code"),
        (of_other_groups, 0, "was prepared with data.group_near_duplicates False, and the recipe has True"),
        (lambda carried: None, 1, "was prepared with data.split_index 0, and the recipe has 1"),
        (lambda carried: (carried / "val_targets.npy").write_bytes(b"changed"), 0, "val_targets.npy is not the file"),
    ],
)
def test_a_prepared_task_of_another_kind_is_refused_before_any_training(
    carried: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, split_index: int, reason: str
) -> None:
    change(carried)
    recipe = {**RECIPE, "data": {**RECIPE["data"], "split_index": split_index}}
    assert run_here(tmp_path, tmp_path / "out", recipe=recipe, task=str(carried)) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "out/pretrain").exists()
