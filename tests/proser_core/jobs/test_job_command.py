"""The command of the runner: one job or a folder of them, its table, its estimate and what it refuses."""

import io
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import job_runs
import psutil
import pytest
from job_runs import CONTROL, RECIPE, command, digests, run_here, write_job
from PIL import Image
from waiting import PATIENCE_S, started, until

from proser_core.errors import ConfigError
from proser_core.job import main, table
from proser_core.jobs.job_file import JobFile
from proser_core.jobs.job_folder import run_folder
from proser_core.jobs.progress import EpochProgress
from proser_core.store.lock import exclusive_storage


def test_the_epochs_of_a_failed_training_leave_the_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    progress = EpochProgress(stream)
    progress.expect("finetune", 12)
    for name, epochs, done in (("one", 9, 0), ("two", 3, 0)):
        progress.begin(name, "finetune", epochs, done)
        now[0] += 60
        progress.epoch({})
        progress.close()
    assert re.findall(r"(\S+) left", stream.getvalue()) == ["2:00"]  # of the first epoch nothing is concluded


def test_the_first_epoch_of_each_training_side_by_side_says_nothing_of_the_time_left() -> None:
    stream = io.StringIO()
    progress = EpochProgress(stream)
    progress.expect("job", 2)
    progress.begin("2 jobs", "job", 2, 0)
    for _ in range(2):
        progress.epoch({}, side_by_side=2)
    assert "2 jobs: epoch 2/2\n" in stream.getvalue()


def test_two_runs_in_one_folder_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out").mkdir()
    with exclusive_storage(tmp_path / "out", "a sweep"):
        assert run_here(tmp_path, tmp_path / "out") == 2
    assert f"{tmp_path / 'out'}: a sweep, process {os.getpid()} on" in capsys.readouterr().err


def test_an_outcome_among_the_images_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = {**job_runs.RECIPE, "data": {"name": "folder", "num_known": 2, "unknown_settings": [1]}}
    assert run_here(tmp_path, tmp_path / "images/out", recipe=recipe, data_dir=str(tmp_path / "images")) == 2
    assert f"OUT writes to {tmp_path / 'images/out'}, which is in the data directory" in capsys.readouterr().err
    assert not (tmp_path / "images").exists()


def test_the_table_says_what_failed_and_lines_up() -> None:
    entry = {"methods": {"MSP": {"test/unknown_1/auroc": 0.5, "test/unknown_1/macro_f1": 1.0}}}
    assert table({"net": entry, "other": {"methods": {}}}, [1]) == [
        "AUROC / macro-F1, %     1 unknown",
        "net",
        "  MSP                50.0 / 100.0",
        "other",
        "  failed                    - / -",
    ]


def test_the_table_of_a_point_of_many_fields_fits_into_a_terminal() -> None:
    metrics = {f"test/unknown_{count}/{name}": 1.0 for count in (1, 3) for name in ("auroc", "macro_f1")}
    lines = table({"beta=1 gamma=0.1 C=5 alpha=2": {"methods": {"CE control, tuned, MaxLogit": metrics}}}, [1, 3])
    assert max(map(len, lines)) <= 80


def test_help_names_the_exit_codes() -> None:
    process = subprocess.run(
        [*command(Path("a"), Path("b")), "--help"], capture_output=True, text=True, cwd=job_runs.ROOT
    )
    assert process.returncode == 0
    assert "130" in process.stdout


def test_the_folder_of_one_job_is_refused(tmp_path: Path) -> None:
    """Its OUT holds a JOB.json too, which would be trained again, into OUT/OUT."""
    job = write_job(tmp_path, finetunes=[])
    write_job(tmp_path / "OUT", finetunes=[])
    with pytest.raises(ConfigError, match=rf"holds one job, not several; give its {job} and a folder"):
        run_folder(tmp_path, 1, lambda job, out: pytest.fail(f"{out} is trained"))


class TestAFolderOfJobs:
    @pytest.mark.slow
    def test_all_are_run_in_turn_and_a_failed_one_does_not_stop_the_others(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        diverges = {"recipe": {**RECIPE, "pretrain": {**RECIPE["pretrain"], "lr": 1e30}}}
        write_job(tmp_path / "1-diverges", finetunes=[], **diverges)
        write_job(tmp_path / "2-good", finetunes=[])
        assert main([str(tmp_path)]) == 1
        out = tmp_path / "2-good" / "OUT"
        assert digests(out)
        assert "failed: pretraining: " in capsys.readouterr().err
        shutil.rmtree(out / "pretrain")  # what has finished is not looked at again ...
        write_job(tmp_path / "1-diverges", finetunes=[])
        assert main([str(tmp_path)]) == 0
        assert f"[2/2] {tmp_path / '2-good' / 'JOB.json'}: finished" in capsys.readouterr().out
        assert not (out / "pretrain").exists()
        write_job(tmp_path / "2-good", finetunes=[CONTROL])  # ... unless the job is another one
        assert main([str(tmp_path)]) == 0
        assert len(list(out.glob("trials/*/manifest.json"))) == 1

    def test_what_cannot_be_run_is_refused_before_any_training(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main([str(tmp_path)]) == 2
        assert "has no */JOB.json; need what `proser reproduce --jobs` writes" in capsys.readouterr().err
        good = write_job(tmp_path / "1-good", finetunes=[])
        write_job(tmp_path / "2-misspelt", finetune=[])
        assert main([str(tmp_path)]) == 2
        assert "finetune" in capsys.readouterr().err
        assert not (tmp_path / "1-good" / "OUT").exists()
        assert main([str(tmp_path), str(tmp_path / "OUT")]) == 2
        assert "its jobs write to OUT next to each file" in capsys.readouterr().err
        assert main([str(good)]) == 2
        assert "need a folder for weights, logits and metrics after it" in capsys.readouterr().err

    @pytest.mark.slow
    def test_several_are_run_at_a_time_and_what_has_finished_is_left_alone(
        self, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(job_runs.ROOT)
        diverges = {"recipe": {**RECIPE, "pretrain": {**RECIPE["pretrain"], "lr": 1e30}}}
        write_job(tmp_path / "1-diverges", finetunes=[], **diverges)
        good = [write_job(tmp_path / name, finetunes=[CONTROL]) for name in ("2-good", "3-good")]
        assert main([str(tmp_path), "--at-once", "2"]) == 1
        printed = capfd.readouterr()
        assert "3 jobs, 2 at a time: 10 epochs" in printed.err
        log = tmp_path / "1-diverges" / "log.txt"
        assert sorted(printed.out.splitlines()) == [
            f"[1/3] {tmp_path / '1-diverges' / 'JOB.json'}: failed, see {log}",
            *(f"[{number}/3] {path}: done" for number, path in enumerate(good, start=2)),
        ]
        assert "proser: pretraining: " in log.read_text()
        first, second = (digests(path.parent / "OUT") for path in good)
        assert first == second
        assert len(first) == 2
        write_job(tmp_path / "1-diverges", finetunes=[])
        assert main([str(tmp_path), "--at-once", "2"]) == 0
        assert [f"[{number}/3] {path}: finished" for number, path in enumerate(good, start=2)] == (
            capfd.readouterr().out.splitlines()[:2]
        )

    @pytest.mark.parametrize(("codes", "whole"), [((-9, 0), 1), ((1, 2), 2), ((2, 1), 2), ((0, 1), 1), ((0, 0), 0)])
    def test_the_worst_code_is_the_folders_and_what_succeeded_alone_has_finished(
        self, codes: tuple[int, int], whole: int, tmp_path: Path
    ) -> None:
        code_of, ran = dict(zip(("1", "2"), codes, strict=True)), list[str]()
        for name in code_of:
            write_job(tmp_path / name, finetunes=[])

        def run(given: JobFile, out: Path) -> int:
            out.mkdir(exist_ok=True)
            ran.append(out.parent.name)
            return code_of[out.parent.name]

        assert [run_folder(tmp_path, 1, run) for _ in range(2)] == [whole, whole]
        assert ran == ["1", "2", *(name for name, code in code_of.items() if code)]

    def test_where_all_have_finished_no_progress_is_printed(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "1" / "OUT").mkdir(parents=True)
        job = write_job(tmp_path / "1", finetunes=[])
        assert run_folder(tmp_path, 1, lambda given, out: 0) == 0
        capsys.readouterr()
        assert main([str(tmp_path), "--at-once", "2"]) == 0
        assert capsys.readouterr() == (f"[1/1] {job}: finished\n", "")

    def test_a_job_that_is_edited_while_it_runs_has_not_finished(self, tmp_path: Path) -> None:
        write_job(tmp_path / "1", finetunes=[])
        ran = []

        def run(given: JobFile, out: Path) -> int:
            out.mkdir(exist_ok=True)
            write_job(tmp_path / "1", finetunes=[CONTROL])
            ran.append(len(given.finetunes))
            return 0

        assert [run_folder(tmp_path, 1, run) for _ in range(3)] == [0, 0, 0]
        assert ran == [0, 1]

    def test_a_job_whose_images_have_changed_has_not_finished(self, tmp_path: Path) -> None:
        photos = [tmp_path / "data" / name / f"{number}.png" for name in "abc" for number in range(5)]
        for path in photos:
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (8, 8)).save(path)
        data = {**RECIPE["data"], "name": "folder", "num_known": 2, "unknown_settings": [1], "development": "none"}
        write_job(tmp_path / "1", finetunes=[], recipe={**RECIPE, "data": data, "space": ""}, data_dir="../data")
        ran = []

        def run(given: JobFile, out: Path) -> int:
            out.mkdir(exist_ok=True)
            ran.append(out)
            return 0

        for runs in (1, 1, 2, 2):
            if runs > len(ran) > 0:
                Image.new("RGB", (9, 9)).save(photos[0])
            assert run_folder(tmp_path, 1, run) == 0
            assert len(ran) == runs
        shutil.rmtree(tmp_path / "data")
        assert (run_folder(tmp_path, 1, run), len(ran)) == (0, 2), "images that are gone are not others"

    @pytest.mark.slow
    @pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
    def test_where_it_is_stopped_no_job_goes_on_alone(self, stop: signal.Signals, tmp_path: Path) -> None:
        long = {"recipe": {**RECIPE, "pretrain": {**RECIPE["pretrain"], "epochs": 10_000}}, "finetunes": []}
        for name in ("1", "2"):
            write_job(tmp_path / name, **long)
        whole = [*command(tmp_path, Path())[:-1], "--at-once", "2"]
        with started(whole, env=job_runs.environment(), cwd=job_runs.ROOT) as process:
            until(lambda: len(list(tmp_path.glob("*/OUT/pretrain/*/epochs.jsonl"))) == 2, process)
            parts = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(stop)
            assert process.wait(PATIENCE_S) == 128 + stop
        assert len(parts) == 2
        assert not any(part.is_running() for part in parts)

    @pytest.mark.parametrize("at_once", ["0", "2"])
    def test_one_job_is_one_process(self, at_once: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        job = write_job(tmp_path, finetunes=[])
        assert main([str(job), str(tmp_path / "out"), "--at-once", at_once]) == 2
        assert f"got --at-once {at_once} with {job}; need 1 or more" in capsys.readouterr().err
        assert not (tmp_path / "out").exists()
