"""What the benchmarks of sweeps are made of, without a sweep. No time is asserted."""

import os
import sqlite3
from contextlib import closing, nullcontext
from pathlib import Path

import numpy as np
import pytest
from pipeline_runs import tiny_recipe

from benchmarks.workflow.many_trials import GRIDS, Measured, _folder, _Half, report
from benchmarks.workflow.simulated_training import simulated
from benchmarks.workflow.sweep_folder import Sweep, SweepFolder, mapped, memory
from benchmarks.workflow.with_notes import PARTS, REAL, SIMULATED
from proser_core.config import to_json
from proser_core.jobs.preparing import save_task
from proser_core.jobs.spec import LOGITS, Job, read_epochs
from proser_core.jobs.worker import run_job
from proser_core.recognition.logit_tables import load_logits
from proser_core.store.store import MANIFEST, load_if_complete
from tune_spaces import expand


def measured(trials: int, seconds: float, megabytes: float) -> Measured:
    parts = {"trained": (10.0, 11.0), "tracked": (11.0, 10 + seconds), "reported": (90.0, 95.0)}
    sweep = Sweep(seconds + 30, parts, megabytes, megabytes)
    return Measured(trials, trials // 2, sweep, sweep, sweep, 150.0, 1.0)


def test_a_further_trial_is_told_from_what_every_sweep_pays_once() -> None:
    even = report([measured(count, 20 + 0.1 * count, 400 + 0.1 * count) for count in (100, 500, 2000)])
    growing = report([measured(count, 20 + 0.1 * count + 1e-4 * count**2, 400) for count in (100, 500, 2000)])
    assert [target.measured for target in even.targets] == pytest.approx([1.0, 100.0])
    assert [even.targets[0].verdict, growing.targets[0].verdict] == ["met", "missed"]
    for table in even.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}


def test_each_grid_has_as_many_points_as_it_says(tmp_path: Path) -> None:
    for points, grid in GRIDS.items():
        made = _folder(tmp_path / str(points), points, grid)
        assert len(expand(str(made.place / "space.py"))) == points


def test_a_simulated_training_leaves_what_a_real_one_does_without_taking_a_step(tmp_path: Path) -> None:
    recipe = tiny_recipe()
    save_task(recipe, None, tmp_path / "task")
    real, made = tmp_path / "real", tmp_path / "made"
    for folder, context in ((real, nullcontext), (made, simulated)):
        with context():
            run_job(Job("finetune", to_json(recipe), str(tmp_path / "task"), str(folder)), lambda metrics: None)
        assert load_if_complete(folder) is not None
    assert {path.name for path in real.iterdir()} == {path.name for path in made.iterdir()}
    assert len(read_epochs(real)) == len(read_epochs(made)) == recipe.finetune.epochs
    tables = [load_logits(folder / LOGITS)["test"] for folder in (real, made)]
    assert tables[0].dummies.shape == tables[1].dummies.shape


def test_what_came_after_half_is_taken_away(tmp_path: Path) -> None:
    sweeps = SweepFolder(tmp_path, SIMULATED, ())
    half = _Half(sweeps, 2)
    with closing(sqlite3.connect(sweeps.database)) as database:
        database.execute("create table runs (name text)")
        for name in ("one", "two", "three"):
            folder = sweeps.storage / "trials" / name
            folder.mkdir(parents=True)
            (folder / MANIFEST).touch()
            database.execute("insert into runs values (?)", (name,))
            database.commit()
            half.look(os.getpid())
    for name in ("sweep", "sweep_report"):
        (sweeps.storage / name).mkdir()
    half.restore()
    assert {path.name for path in sweeps.storage.iterdir()} == {"trials"}
    assert {path.name for path in (sweeps.storage / "trials").iterdir()} == {"one", "two"}
    with closing(sqlite3.connect(sweeps.database)) as database:
        assert database.execute("select name from runs").fetchall() == [("one",), ("two",)]


def test_memory_of_mapped_files_is_told_from_the_rest(tmp_path: Path) -> None:
    np.save(tmp_path / "images.npy", np.ones(1 << 21, np.uint8))
    before = mapped(os.getpid(), tmp_path)
    images = np.load(tmp_path / "images.npy", mmap_mode="r")
    assert images.sum() == 1 << 21
    resident, shared = memory(os.getpid())
    assert before == 0
    assert mapped(os.getpid(), tmp_path) == pytest.approx(2, abs=0.1)
    assert resident >= shared > 2


def test_parts_of_a_command_are_read_from_its_notes(tmp_path: Path) -> None:
    sweeps = SweepFolder(tmp_path, REAL, ())
    (tmp_path / PARTS).write_text('["trained", 1.0, 3.0]\n["tracked", 3.0, 4.5]\n')
    assert Sweep(9.0, dict(sweeps._parts()), 0, 0).seconds("trained", "tracked") == 3.5
