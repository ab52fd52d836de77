"""A machine of a cluster goes away in mid-sweep, with all that works on it."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psutil
from lab import Lab
from losses import Loss
from ray_nodes import Head, announce_end, head_node, node
from sweeps import Sweep, require

from proser_core.jobs.spec import TRIALS

NOTICE_S = 20
PROJECT = str(Path(__file__).parents[2])


def lost(lab: Lab) -> Loss:
    """The second of two nodes is killed while each of them trains; the sweep ends on the first."""
    return _second_killed(lab, "one of two nodes killed", lambda head: None)


def drained(lab: Lab) -> Loss:
    """The second of two nodes is announced to go away soon, as by a cloud, and then it is killed: no epoch is lost."""

    def announce(head: Head) -> None:
        announce_end(head, deadline_s=NOTICE_S)
        time.sleep(NOTICE_S)

    return _second_killed(lab, f"one of two nodes drained, killed {NOTICE_S} s later", announce)


def _second_killed(lab: Lab, fault: str, before: Callable[[Head], None]) -> Loss:
    """What happens `before` the second node is killed, while both train."""
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
            before(head)
            second.close()
            sweep.ended(0)
    return Loss.of(fault, sweep, undisturbed)


def head_lost(lab: Lab) -> Loss:
    """The head node is killed in mid-sweep, and the cluster with it; the same command continues with another one."""
    undisturbed = lab.undisturbed()
    with lab.sweep(("--cluster.address", "auto")) as sweep:
        with head_node(PYTHONPATH=PROJECT) as head:
            sweep.begin(**head.environment, RAY_ADDRESS=head.address)
            sweep.until_epochs(sum(undisturbed.epochs.values()) // 2)
            sweep.strike(sweep.diary.in_progress())
        sweep.ended(1)
        said = sweep.complained().strip()  # by Ray, which ends the driver a minute later
        require(len(said.splitlines()) == 1 and "Failed to connect to GCS" in said, f"not one line of Ray's: {said}")
        sweep.until_gone()
        with head_node(PYTHONPATH=PROJECT) as head:
            sweep.begin(**head.environment, RAY_ADDRESS=head.address)
            sweep.ended(0)
    return Loss.of("head node killed", sweep, undisturbed)


def _in_mid_training(sweep: Sweep) -> dict[str, int]:
    """Trials in progress that have an epoch on disk, each with the process that writes."""
    return {name: writer for name, writer in sweep.diary.in_progress(TRIALS).items() if sweep.diary.numbers(name)}


def _is_below(process: int, argument: str) -> bool:
    """Whether a process was started by one with this argument, or by one that it started."""
    return any(argument in parent.cmdline() for parent in psutil.Process(process).parents())
