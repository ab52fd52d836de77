"""Sweeps of 100, 500 and 2,000 trials whose training is a sleep: what each trial costs, and the driver's memory.

All but the steps is real: driver, Tune, checkpoints, manifests, tracking to SQLite, report. Only by name.
"""

import math
import shutil
import tempfile
from pathlib import Path

from benchmarks.driven import SIMULATED
from benchmarks.settings import Settings
from benchmarks.simulated import EPOCH_SECONDS
from benchmarks.sweeps import MEGABYTE, Sweep, SweepFolder
from benchmarks.tables import Cell, Report, Table, Target

GRIDS = {100: (5, 5, 4), 500: (10, 10, 5), 2000: (20, 10, 10)}
QUICK_GRIDS = {4: (2, 2, 1), 8: (2, 2, 2)}
EPOCHS, SLOTS = 2, 2
FLAT = 1.25  # a further trial of the largest sweep against one of the smallest
SPACE = '''"""{} points."""
from ray import tune


def param_space():
    """A grid of three fields."""
    return {{"finetune": {{{}}}}}
'''


def run(settings: Settings) -> Report:
    """Each size from nothing, again when all is done, and again after an interrupt at half."""
    grids = QUICK_GRIDS if settings.quick else GRIDS
    firsts: list[Sweep] = []
    rows: list[tuple[Cell, ...]] = []
    going_on: list[tuple[Cell, ...]] = []
    for points, grid in grids.items():
        with tempfile.TemporaryDirectory() as folder:
            whole = _folder(Path(folder) / "whole", points, grid)
            first = whole.sweep()
            trials, megabytes = len(whole.finished()), whole.database.stat().st_size / MEGABYTE
            again = whole.sweep()
            shutil.rmtree(whole.place)
            halves = _folder(Path(folder) / "halves", points, grid)
            halves.sweep(stop_after=trials // 2)
            found = len(halves.finished())
            second = halves.sweep()
            if len(halves.finished()) != trials:
                raise RuntimeError(f"{len(halves.finished())} of {trials} trials after the sweep went on")
        swept = first.seconds("trained", "tracked")
        each = 1000 * SLOTS * swept / trials - 1000 * EPOCHS * EPOCH_SECONDS
        reported = first.seconds("reported", "reported")
        rows.append((trials, first.wall, swept, each, reported, first.resident, first.proportional, megabytes))
        left = trials - found
        going_on.append(
            (trials, again.wall, again.resident, found, second.wall, second.seconds("trained", "tracked") / left)
        )
        firsts.append(first)
    columns = ("trials", "s, command", "s, trials", "ms/trial beside training", "s, report")
    columns += ("driver MB, resident", "driver MB, shared in proportion", "MLflow MB")
    note = (
        f"{SLOTS} trials at a time, each {EPOCHS} epochs of {1000 * EPOCH_SECONDS:.0f} ms of sleep with checkpoints "
        "of full size, and logits and weights of a real network. Trials: from the hand-over to Tune to the last "
        f"trial that is durable, scored and tracked; a trial's cost is {SLOTS} times that, without the sleep. "
        "Command: all of it, with preparing, pretraining, the start of Ray and of the database, and the report."
    )
    resumed = ("trials", "s, all done", "driver MB, resident", "done before", "s, the others", "s/trial of them")
    return Report(
        [
            Table("Sweeps of simulated trials", columns, rows, (note,)),
            Table("The same command again: when all is done, and after an interrupt", resumed, going_on),
        ],
        _targets(list(grids), firsts),
    )


def _targets(points: list[int], firsts: list[Sweep]) -> list[Target]:
    """A further trial, from the differences between the sizes, so that what every sweep pays once is left out."""
    seconds = [first.seconds("trained", "tracked") for first in firsts]
    further = [(b - a) / (q - p) for a, b, p, q in zip(seconds, seconds[1:], points, points[1:], strict=False)]
    grown = (firsts[-1].resident - firsts[0].resident) / (points[-1] - points[0])
    return [
        Target("a further trial among the most against one among the fewest", _last_to_first(further), FLAT, False),
        Target("MB that the driver grows by with 1,000 trials", 1000 * grown, 200, False, "MB"),
    ]


def _last_to_first(further: list[float]) -> float | None:
    return further[-1] / further[0] if len(further) > 1 else None


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
    space.write_text(SPACE.format(points, inside))
    options = ("--finetune.epochs", str(EPOCHS), "--pretrain.epochs", "1", "--cluster.pretrain-workers", "1")
    limit = ("--cluster.max-concurrent", str(SLOTS))
    return SweepFolder(place, SIMULATED, ("digits", str(space), *options, *limit))
