"""Sweeps of 100, 500 and 2,000 trials whose training is a sleep: what each trial costs, and the driver's memory.

All but the steps is real: driver, Tune, checkpoints, manifests, tracking to SQLite, report.
"""

import math
import shutil
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.harness.process_memory import MEGABYTE
from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Cell, Report, Table, Target
from benchmarks.harness.timing import on_threads
from benchmarks.workflow.simulated_training import EPOCH_SECONDS, simulated
from benchmarks.workflow.sweep_folder import Sweep, SweepFolder
from benchmarks.workflow.with_notes import SIMULATED
from proser_core.jobs.spec import TRIALS, Job
from proser_core.jobs.worker import run_job
from proser_core.store.store import MANIFEST

GRIDS = {100: (5, 5, 4), 500: (10, 10, 5), 2000: (20, 10, 10)}
QUICK_GRIDS = {4: (2, 2, 1), 8: (2, 2, 2)}
EPOCHS, SLOTS, SAMPLE = 2, 2, 20
SLEEP_MS = 1000 * EPOCHS * EPOCH_SECONDS
FLAT = 1.25  # a further trial of the largest sweep against one of the smallest
SPACE = '''"""{} points."""
from ray import tune


def param_space():
    """A grid of three fields."""
    return {{"finetune": {{{}}}}}
'''


@dataclass
class _Half:
    """What a driver that was killed when half of its trials were durable would have left."""

    sweeps: SweepFolder
    count: int
    finished: frozenset[str] = frozenset()

    @property
    def _copy(self) -> Path:
        return self.sweeps.place / "half.db"

    def look(self, driver: int) -> None:
        """Keep the database and the names of the durable trials, once there are enough of them."""
        if self.finished or len(self.sweeps.finished()) < self.count:
            return
        with closing(sqlite3.connect(self.sweeps.database)) as live, closing(sqlite3.connect(self._copy)) as copy:
            live.backup(copy)
        durable = sorted(self._trials().glob(f"*/{MANIFEST}"), key=lambda path: path.stat().st_mtime)
        self.finished = frozenset(path.parent.name for path in durable[: self.count])

    def restore(self) -> None:
        """Take away what came later."""
        self._copy.replace(self.sweeps.database)
        for path in self._trials().iterdir():
            if path.name not in self.finished:
                shutil.rmtree(path)
        for name in ("sweep", "sweep_report"):
            shutil.rmtree(self.sweeps.storage / name)

    def _trials(self) -> Path:
        return self.sweeps.storage / TRIALS


class Measured(NamedTuple):
    """One size: trials, those that were left at half, the three commands, milliseconds of a trial alone, MB of
    MLflow's database."""

    trials: int
    left: int
    first: Sweep
    again: Sweep
    going_on: Sweep
    alone: float
    database: float

    @property
    def swept(self) -> float:
        """Seconds from the hand-over to the last trial that is tracked."""
        return self.first.seconds("trained", "tracked")


def run(settings: Settings) -> Report:
    """Each size from nothing, again when all is done, and again from what there was at half."""
    grids = QUICK_GRIDS if settings.quick else GRIDS
    return report([measure(points, grid) for points, grid in grids.items()])


def measure(points: int, grid: tuple[int, ...]) -> Measured:
    """Three commands over one grid."""
    with tempfile.TemporaryDirectory() as folder:
        sweeps = _folder(Path(folder) / "sweep", points, grid)
        half = _Half(sweeps, points // 2)
        first = sweeps.sweep(half.look)
        trials, megabytes = len(sweeps.finished()), sweeps.database.stat().st_size / MEGABYTE
        alone = _alone(sweeps.jobs()[:SAMPLE], Path(folder) / "alone")
        again = sweeps.sweep()
        half.restore()
        going_on = sweeps.sweep()
        if len(sweeps.finished()) != trials:
            raise RuntimeError(f"{len(sweeps.finished())} of {trials} trials after the sweep went on")
    return Measured(trials, trials - len(half.finished), first, again, going_on, alone, megabytes)


def report(sizes: list[Measured]) -> Report:
    """Tables over sizes, and whether it is flat."""
    rows: list[tuple[Cell, ...]] = []
    resumed: list[tuple[Cell, ...]] = []
    for size in sizes:
        first = size.first
        each, alone = _beside(size.swept, size.trials), size.alone - SLEEP_MS
        seconds = (first.wall, size.swept, each, alone, first.seconds("reported", "reported"))
        rows.append((size.trials, *seconds, first.resident, first.proportional, size.database))
        others = _beside(size.going_on.seconds("trained", "tracked"), size.left)
        resumed.append((size.trials, size.again.wall, size.again.resident, size.left, size.going_on.wall, others))
    note = (
        f"{SLOTS} trials at a time, each {EPOCHS} epochs of {1000 * EPOCH_SECONDS:.0f} ms of sleep with checkpoints "
        "of full size, and logits and weights of a real network. Trials: from the hand-over to Tune to the last "
        f"trial that is durable, scored and tracked; what a trial costs is {SLOTS} times that, without the sleep. The "
        "worker's own: the same trial in a process without Ray, median. Command: all of it, with preparing, "
        "pretraining, the start of Ray and of the database, and the report."
    )
    seconds_columns = ("s, command", "s, trials", "ms/trial beside training", "the worker's own", "s, report")
    columns = ("trials", *seconds_columns, "driver MB, resident", "driver MB, shared in proportion", "MLflow MB")
    later = ("trials", "s, all done", "driver MB, resident", "trials left", "s, command", "ms/trial beside training")
    tables = [
        Table("Sweeps of simulated trials", columns, rows, (note,)),
        Table("The same command again: when all is done, and when half is", later, resumed),
    ]
    return Report(tables, _targets(sizes))


def _beside(seconds: float, trials: int) -> float:
    """Milliseconds of a place on the machine that a trial took, without its sleep."""
    return 1000 * SLOTS * seconds / trials - SLEEP_MS


def _targets(sizes: list[Measured]) -> list[Target]:
    """A further trial, from the differences between the sizes, so that what every sweep pays once is left out."""
    further = [(b.swept - a.swept) / (b.trials - a.trials) for a, b in pairwise(sizes)]
    least, most = sizes[0], sizes[-1]
    grown = 1000 * (most.first.resident - least.first.resident) / (most.trials - least.trials)
    flat = further[-1] / further[0] if len(further) > 1 else None
    return [
        Target("a further trial among the most against one among the fewest", flat, FLAT, False),
        Target("MB that the driver grows by with 1,000 trials", grown, 200, False, "MB"),
    ]


def _alone(jobs: list[Job], place: Path) -> float:
    """Median milliseconds of simulated trainings one after another in this process."""
    seconds = []
    with simulated(), on_threads(torch.get_num_threads()):  # a job sets its own
        for job in jobs:
            start = time.perf_counter()
            run_job(replace(job, folder=str(place / Path(job.folder).name)), lambda metrics: None)
            seconds.append(time.perf_counter() - start)
    return 1000 * statistics.median(seconds)


def _folder(place: Path, points: int, grid: tuple[int, ...]) -> SweepFolder:
    """A sweep over a grid of so many values of beta, gamma and alpha."""
    assert math.prod(grid) == points
    fields = {
        name: [round(0.1 * (value + 1), 1) for value in range(count)]
        for name, count in zip(("beta", "gamma", "alpha"), grid, strict=True)
    }
    place.mkdir(parents=True)
    space = place / "space.py"
    inside = ", ".join(f'"{name}": tune.grid_search({values})' for name, values in fields.items())
    space.write_text(SPACE.format(points, inside), encoding="utf-8")
    options = ("--finetune.epochs", str(EPOCHS), "--pretrain.epochs", "1", "--cluster.pretrain-workers", "1")
    limit = ("--cluster.max-concurrent", str(SLOTS))
    return SweepFolder(place, SIMULATED, ("digits", str(space), *options, *limit))
