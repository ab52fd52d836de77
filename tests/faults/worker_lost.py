"""A process that trains is killed; the driver lives, and nobody gives the command again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from lab import Lab
from losses import Loss
from sweeps import EPOCHS, ONE, Sweep, require

from proser_core.jobs.spec import PRETRAIN, TRIALS

TWO_WORKERS = ("--cluster.num-workers", "2")
ROOM = 0.25  # of the machine's memory: so much more than now is held, and Ray ends workers


def one_worker(lab: Lab) -> Loss:
    """A worker is killed with `kill -9` in the pretraining and in two trials."""
    undisturbed = lab.undisturbed()
    with lab.sweep() as sweep:
        sweep.begin()
        for stage in (PRETRAIN, TRIALS, TRIALS):
            training, writer = _in_mid_training(sweep, stage)
            sweep.strike([training])
            os.kill(writer, signal.SIGKILL)
        sweep.ended(0)
        sweep.until_gone()
    return Loss.of("worker killed with `kill -9`", sweep, undisturbed)


def one_of_two(lab: Lab) -> Loss:
    """The worker that writes is killed in one DDP trial of two workers, the other one in the next."""
    undisturbed = lab.undisturbed(TWO_WORKERS, ONE)
    with lab.sweep(TWO_WORKERS, space=ONE) as sweep:
        sweep.begin()
        for which in ("writer", "other"):
            training, writer = _in_mid_training(sweep, TRIALS)
            sweep.strike([training])
            os.kill(writer if which == "writer" else _fellow(writer), signal.SIGKILL)
        sweep.ended(0)
        sweep.until_gone()
    return Loss.of("one of two DDP workers killed with `kill -9`", sweep, undisturbed)


def low_on_memory(lab: Lab) -> Loss:
    """The machine runs low on memory, and Ray ends a worker that trains; it is replaced."""
    undisturbed = lab.undisturbed()
    full = min(psutil.virtual_memory().percent / 100 + ROOM, 0.85)
    with lab.sweep(
        environment={"RAY_memory_usage_threshold": str(full), "RAY_memory_monitor_refresh_ms": "100"}
    ) as sweep:
        sweep.begin()
        sweep.until(lambda: any(map(sweep.diary.numbers, sweep.diary.in_progress(TRIALS))), "an epoch of a trial")
        training = dict[str, int]()

        def ended() -> list[str]:
            training.update(sweep.diary.in_progress(TRIALS))
            gone = [name for name, writer in training.items() if not psutil.pid_exists(writer)]
            return [name for name in gone if name not in sweep.diary.finished]

        with _memory_held(full):
            sweep.until(lambda: bool(ended()), "the end of a worker")
        sweep.strike(ended())
        sweep.ended(0)
        sweep.until_gone()
    return Loss.of("worker ended by Ray for lack of memory", sweep, undisturbed)


@contextmanager
def _memory_held(share: float) -> Iterator[None]:
    """Another program takes all memory up to a share of the machine's, and holds it."""
    program = "import psutil, time\nheld = []\n"
    program += f"while psutil.virtual_memory().percent < {100 * share + 1}:\n    held.append(b'1' * 2**26)\n"
    process = subprocess.Popen([sys.executable, "-c", f"{program}time.sleep(600)"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _in_mid_training(sweep: Sweep, stage: str) -> tuple[str, int]:
    """A training that has an epoch on disk and another one to go, and was not struck yet; and who writes it."""
    found: dict[str, int] = {}
    before = {training for strike in sweep.strikes for training in strike.struck}

    def look() -> bool:
        nonlocal found
        found = {
            training: writer
            for training, writer in sweep.diary.in_progress(stage).items()
            if training not in before and 0 < len(sweep.diary.numbers(training)) < EPOCHS - 1
        }
        return bool(found)

    sweep.until(look, f"an epoch in {stage} to strike after")
    return next(iter(found.items()))


def _fellow(writer: int) -> int:
    """The other worker of a training: the process that Ray calls by the same name."""
    process = psutil.Process(writer)
    raylet = process.parent()
    assert raylet is not None
    fellows = [each for each in raylet.children() if each != process and each.cmdline() == process.cmdline()]
    require(len(fellows) == 1, f"{len(fellows)} processes beside {process.cmdline()}")
    return fellows[0].pid
