"""Run a command of `proser` as a process of its own, and measure what it costs."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Cost(NamedTuple):
    """Seconds of a finished command."""

    cpu: float
    wall: float


def child_environment(**more: str) -> dict[str, str]:
    """Environment of a child process: this one, with this project to import from, and `more`."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, **more}


def cost_of(*arguments: str, folder: Path | None = None, **environment: str) -> Cost:
    """Run `proser` with arguments in a folder; CPU seconds are its own and its children's.

    `environment` is set for it alone. Raises RuntimeError where it fails.
    """
    code = "import sys; from pipelines.cli import main; sys.argv[0] = 'proser'; sys.exit(main())"
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=child_environment(**environment),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"proser {' '.join(arguments)} ended with {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, time.perf_counter() - start)
