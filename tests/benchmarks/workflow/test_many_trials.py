"""The benchmark of many trials, without a sweep. No time is asserted."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.workflow.many_trials import GRIDS, Measured, _folder, _Half, report
from benchmarks.workflow.sweep_folder import Sweep, SweepFolder
from benchmarks.workflow.with_notes import SIMULATED
from proser_core.store.store import MANIFEST
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
