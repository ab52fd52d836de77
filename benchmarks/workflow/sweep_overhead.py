"""A sweep of 26 short fine-tunes against a bare pool of two processes that runs the same ones."""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from benchmarks.harness.process_memory import MEGABYTE, mapped
from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Cell, Report, Table, Target
from benchmarks.harness.timing import spread
from benchmarks.variants.process_pool import cost_in_pool, pool_seconds
from benchmarks.workflow.held_images import held_once
from benchmarks.workflow.sweep_folder import Sweep, SweepFolder
from benchmarks.workflow.with_notes import REAL
from pipelines.recipes import digits
from proser_core.jobs.spec import PREPARE, TRIALS

ROUNDS, AT_ONCE = 2, 2
NICENESS = 15  # of Ray's workers; what else runs on the machine then hits both alike
BOUND = 1.15
SECONDS, SIZE = 20.0, 32  # of a training, pixels
STEPS, SCORED = 15, 718  # of an epoch of the digits, images
CIFAR100 = ("--finetune.epochs", "1", "--pretrain.epochs", "1")
QUICK = ("--data.image-size", "8", "--finetune.epochs", "1", "--pretrain.epochs", "1")
SPACE, QUICK_SPACE = "trade_off", "mixup_alpha"
POOL_COLUMNS = ("round", "trials", "s per training", "s, pool", "s, sweep, durable", "s, sweep, tracked")
COLUMNS = (*POOL_COLUMNS, "times the pool", "s, whole command", "s of it before and after")


@dataclass
class _Images:
    """The most that a sweep's processes held of the prepared images, in MB, and how many of them did."""

    folder: Path
    held: float = 0.0
    processes: int = 0

    def look(self, driver: int) -> None:
        """Sum over the processes below a driver."""
        each = [mapped(child.pid, self.folder) for child in psutil.Process(driver).children(recursive=True)]
        self.held = max(self.held, sum(each))
        self.processes = max(self.processes, sum(megabytes > 0 for megabytes in each))


def run(settings: Settings) -> Report:
    """Sweep and pool in turn, each from the same pretrained network."""
    rows: list[tuple[Cell, ...]] = []
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sweeps = SweepFolder(place / "sweep", REAL, _arguments(settings))
        images = _Images(sweeps.storage / PREPARE)
        for number in range(ROUNDS):
            _forget(sweeps)
            swept = sweeps.sweep(images.look)
            jobs, durable = sweeps.jobs(), sweeps.finished()[-1] - swept.parts["trained"][0]
            pooled = pool_seconds(jobs, place / f"pool-{number}", AT_ONCE, NICENESS)
            tracked = swept.seconds("trained", "tracked")
            ratios.append(tracked / pooled)
            each = AT_ONCE * pooled / len(jobs)
            rows.append((number + 1, len(jobs), each, pooled, durable, tracked, ratios[-1], swept.wall, _rest(swept)))
        on_disk = sum(path.stat().st_size for path in images.folder.glob("*/*_images.npy")) / MEGABYTE
        held, memory_targets = held_once(settings, place)
    note = (
        f"{' '.join(sweeps.arguments)}; {AT_ONCE} at a time, one thread each, at niceness {NICENESS}. Pool: from its "
        "start to its last manifest. Sweep: from the hand-over to Tune to the last manifest, and to the end of scoring "
        "and tracking, which the ratio takes. Whole command: with the start of Ray and of the database, preparing and "
        "pretraining (in the first round alone), and the report."
    )
    seen = (
        f"Of {on_disk:.1f} MB of prepared images, {images.processes} processes of the sweep held "
        f"{images.held:.1f} MB in all, shared pages in proportion."
    )
    target = Target("a sweep of some 25 trials of 20 s against a bare pool", spread(ratios)[0], BOUND, False)
    return Report([Table("Sweep and bare pool", COLUMNS, rows, (note, seen)), held], [target, *memory_targets])


def _arguments(settings: Settings) -> tuple[str, ...]:
    limit = ("--cluster.max-concurrent", str(AT_ONCE))
    if settings.quick:
        return ("digits", QUICK_SPACE, *QUICK, *limit)
    if settings.data_dir is None:
        cost = cost_in_pool(replace(digits(), data=replace(digits().data, image_size=SIZE)), AT_ONCE, NICENESS)
        epochs = max(1, round((SECONDS - SCORED / cost.scored_per_second) / (STEPS * cost.step_seconds)))
        options = ("--data.image-size", str(SIZE), "--finetune.epochs", str(epochs), "--pretrain.epochs", "1")
        return ("digits", SPACE, *options, *limit)
    return ("cifar100-cpu-paper", SPACE, *CIFAR100, "--data-dir", str(settings.data_dir.absolute()), *limit)


def _forget(sweeps: SweepFolder) -> None:
    """Delete all of an earlier sweep but what was prepared and pretrained."""
    for name in (TRIALS, "sweep", "sweep_report"):
        shutil.rmtree(sweeps.storage / name, ignore_errors=True)
    sweeps.database.unlink(missing_ok=True)
    shutil.rmtree(sweeps.place / "mlruns", ignore_errors=True)


def _rest(swept: Sweep) -> float:
    return swept.wall - swept.seconds("trained", "tracked")
