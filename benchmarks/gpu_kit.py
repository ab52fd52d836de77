"""`python -m benchmarks.gpu_kit JOBS`: all that a borrowed GPU should measure, in pieces that resume, into one folder.

The tests that need a GPU; the graphed step against the eager and the released form; 25 points in turn and side by side;
then the job files JOBS/*/JOB.json, as `proser reproduce --jobs JOBS` writes them. The same command continues, and skips
what has finished. It needs pytest, hypothesis and what proser_core needs (docs/offline.md), no Ray. Exit codes: 0 all
is finished, 1 something failed, 2 bad input, 75 the time is over.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path

import torch

from proser_core.errors import ConfigError
from proser_core.exit_codes import exit_code_of
from proser_core.jobs.runner import JOB_FILE

KIT = "kit"
"""In the folder of the jobs: what each part but the jobs printed, and its numbers; a trial run has a folder of its own,
so that the real one does not take its parts for finished."""
GPU_TESTS = "tests/proser_core/learning/test_graphed_step.py"
TIME_OVER = 75  # EX_TEMPFAIL of sysexits.h
PYTHON = (sys.executable, "-m")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts in turn until the time is over."""
    options = _parser().parse_args(arguments)
    return exit_code_of(lambda: _run_parts(options))


def _run_parts(options: argparse.Namespace) -> int:
    deadline = time.monotonic() + 60 * options.minutes
    if options.at_once < 1:
        raise ConfigError(f"got --at-once {options.at_once}; need 1 or more")
    if not list(options.jobs.glob(f"*/{JOB_FILE}")):
        raise ConfigError(f"{options.jobs} has no */{JOB_FILE}; need what `proser reproduce --jobs` writes")
    if options.device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("torch sees no GPU here; give --device cpu --quick to try all parts without one")
    kit: Path = options.jobs / f"{KIT}{'' if options.device == 'cuda' else '-cpu'}{'-quick' if options.quick else ''}"
    kit.mkdir(exist_ok=True)
    failed = 0
    for name, command in parts(options, kit).items():
        code = _run(name, command, kit, deadline)
        if code is None:
            print(f"{name}: the time is over; the same command continues", flush=True)
            return TIME_OVER
        print(f"{name}: {'done' if code == 0 else f'failed with exit code {code}'}", flush=True)
        failed += code != 0
    return 1 if failed else 0


def parts(options: argparse.Namespace, kit: Path) -> dict[str, list[str]]:
    """Their commands by name, in order. What the benchmarks train on lies in --data-dir; without it only the jobs'
    own images do, and 25 points are not measured."""
    sizes = ["--device", options.device, *(["--quick"] if options.quick else [])]
    data = ["--data-dir", str(options.data_dir)] if options.data_dir else []
    found = {
        "tests": [*PYTHON, "pytest", "-q", "-rs", GPU_TESTS],
        "step": [*PYTHON, "benchmarks", "cuda", *sizes, *data, "--json", str(kit / "step.json")],
        "points": [*PYTHON, "benchmarks", "gpu_trials", *sizes, *data, "--json", str(kit / "points.json")],
        "jobs": [*PYTHON, "proser_core.job", str(options.jobs), "--at-once", str(options.at_once)],
    }
    if not (data or options.quick):
        del found["points"]
    return found


def _run(name: str, command: list[str], kit: Path, deadline: float) -> int | None:
    """Its exit code; None where it was stopped at the deadline. A part whose log is there has finished; the jobs keep
    their own record, and show their progress."""
    log = kit / f"{name}.txt"
    if log.exists():
        return 0
    partial = None if name == "jobs" else log.with_suffix(".part")
    with nullcontext() if partial is None else partial.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(command, stdout=output, start_new_session=True)
        try:
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None
        finally:  # also where the kit itself is stopped; a job writes what it has trained at the end of each epoch
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)  # the processes of a pool too
            process.wait()
    if partial is not None:
        print(partial.read_text(encoding="utf-8"), end="")
        if code == 0:
            partial.rename(log)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu_kit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("jobs", metavar="JOBS", type=Path, help="folder of the job files; all results go there")
    parser.add_argument("--minutes", type=float, default=9.0, help="after which it stops (default 9)")
    parser.add_argument("--at-once", metavar="N", type=int, default=1, help="run N jobs at a time (default 1)")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--data-dir", type=Path, help="where CIFAR100 and CIFAR10 lie; without it no 25 points")
    parser.add_argument("--quick", action="store_true", help="tiny benchmarks: shows on a CPU that they run")
    return parser


if __name__ == "__main__":
    sys.exit(main())
