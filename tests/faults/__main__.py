"""`python tests/faults [NAME ...]`: strikes real sweeps with faults, and prints what each of them lost.

A fault is a function in a file beside this one: it begins a sweep of the lab, strikes, gives the same command again
where the strike has ended it, and compares the outcome with that of a sweep that nothing struck.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "support"))  # the Ray nodes and tracking servers of its tests

import bit_flipped
import disk_full
import driver_ended
import node_lost
import promotion_killed
import second_run
import server_away
import store_away
import two_machines
import worker_lost
from lab import Lab, SkippedError
from losses import Loss, markdown
from soak import soak
from sweeps import BrokenError

FAULTS: dict[str, Callable[[Lab], Loss]] = {
    "driver": driver_ended.killed,
    "interrupt": driver_ended.interrupted,
    "worker": worker_lost.one_worker,
    "two-workers": worker_lost.one_of_two,
    "node": node_lost.lost,
    "disk": disk_full.full,
    "server": server_away.for_a_minute,
    "server-for-good": server_away.for_good,
    "second-run": second_run.refused,
    "memory": worker_lost.low_on_memory,
    "head": node_lost.head_lost,
    "drain": node_lost.drained,
    "worker-disk": disk_full.of_a_worker,
    "checkpoint-bit": bit_flipped.in_a_checkpoint,
    "weights-bit": bit_flipped.in_finished_weights,
    "store": store_away.away,
    "two-machines": two_machines.lease,
    "promotion": promotion_killed.between_writes,
}
OF_OTHERS = ("MLFLOW_TRACKING_URI", "RAY_ADDRESS", "RAY_TMPDIR", "RAY_AUTH_MODE")


def main() -> int:
    """Exit code 1 where anything was lost that must not be."""
    options = _parser().parse_args()
    if options.list:
        for name, fault in FAULTS.items():
            print(f"{name:<16} {fault.__doc__}")
        return 0
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a shell in the background; sweeps would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in OF_OTHERS:
        os.environ.pop(name, None)
    root = Path(tempfile.mkdtemp(prefix="faults"))  # Ray's sockets in it need a short path
    lab, losses = Lab(root, options.quick, options.seed), []
    if options.soak:
        return soak(lab, options.soak)
    for name in options.names or FAULTS:
        print(f"{name}: {FAULTS[name].__doc__}", flush=True)
        started = time.monotonic()
        try:
            loss = FAULTS[name](lab)
        except SkippedError as reason:
            loss = Loss(f"{name}: skipped, {reason}")
        except BrokenError as error:
            loss = Loss(name, broken=(str(error),))
        losses.append(loss)
        print(f"  {'BROKEN' if loss.broken else 'done'} after {time.monotonic() - started:.0f} s", flush=True)
        for broken in loss.broken:
            print(f"  {broken}", flush=True)
        print(markdown([loss]).splitlines()[-1], flush=True)  # what is measured is not lost where a later one hangs
    print(f"\n{markdown(losses)}")
    if any(loss.broken for loss in losses):
        print(f"\nwhat the sweeps left and printed is in {root}")
        return 1
    shutil.rmtree(root)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python tests/faults", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*FAULTS, []], help=", ".join(FAULTS))
    parser.add_argument("--list", action="store_true", help="say what each fault does, and stop")
    parser.add_argument("--quick", action="store_true", help="fewer strikes, and shorter ones")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="no faults: a server under load and a sweep")
    parser.add_argument("--seed", type=int, default=0, help="of the moments at which the driver is killed")
    return parser


if __name__ == "__main__":
    sys.exit(main())
