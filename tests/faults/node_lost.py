"""A machine of a cluster goes away in mid-sweep, with all that works on it."""

from contextlib import ExitStack
from pathlib import Path

import psutil
from lab import Lab
from losses import Loss
from ray_nodes import head_node, node
from sweeps import Sweep, require

from proser_core.jobs.spec import TRIALS

PROJECT = str(Path(__file__).parents[2])


def lost(lab: Lab) -> Loss:
    """The second of two nodes is killed while each of them trains; the sweep ends on the first."""
    undisturbed = lab.undisturbed()
    with head_node(PYTHONPATH=PROJECT) as head, ExitStack() as second:
        joins = f"--address={head.address}"
        second.enter_context(node([joins, "--num-cpus=1"], head.environment, head.folder / "second.log"))
        with lab.sweep(("--cluster.address", head.address), environment=head.environment) as sweep:
            sweep.begin()
            sweep.until(lambda: len(_in_mid_training(sweep)) == 2, "an epoch of a trial on each node")
            there = [name for name, writer in _in_mid_training(sweep).items() if _is_below(writer, joins)]
            require(len(there) == 1, f"{len(there)} trials on the second node instead of one")
            sweep.strike(there)
            second.close()
            sweep.ended(0)
    return Loss.of("one of two nodes killed", sweep, undisturbed)


def _in_mid_training(sweep: Sweep) -> dict[str, int]:
    """Trials in progress that have an epoch on disk, each with the process that writes."""
    return {name: writer for name, writer in sweep.diary.in_progress(TRIALS).items() if sweep.diary.numbers(name)}


def _is_below(process: int, argument: str) -> bool:
    """Whether a process was started by one with this argument, or by one that it started."""
    return any(argument in parent.cmdline() for parent in psutil.Process(process).parents())
