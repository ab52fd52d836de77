"""A sweep as a process of its own, in a folder of its own: how long its parts took, and what its driver held."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.workflow.commands import child_environment
from benchmarks.workflow.with_notes import JOBS, PARTS
from proser_core.jobs.spec import TRIALS, Job
from proser_core.store.store import MANIFEST

MEGABYTE = 1 << 20
Look = Callable[[int], None]


@dataclass(frozen=True)
class Sweep:
    """A finished command: seconds in all and of its parts by name, and the peak of its driver's memory in MB."""

    wall: float
    parts: dict[str, tuple[float, float]]
    resident: float
    proportional: float

    def seconds(self, first: str, last: str) -> float:
        """From the beginning of one part to the end of another."""
        return self.parts[last][1] - self.parts[first][0]


@dataclass(frozen=True)
class SweepFolder:
    """Storage, tracking and notes of sweeps with the same arguments; `kind` is real or simulated training."""

    place: Path
    kind: str
    arguments: tuple[str, ...]

    @property
    def storage(self) -> Path:
        """The storage."""
        return self.place / "storage"

    @property
    def database(self) -> Path:
        """MLflow's database, a SQLite file."""
        return self.place / "mlflow.db"

    def jobs(self) -> list[Job]:
        """The fine-tunes that the last sweep handed over."""
        return [Job(**fields) for fields in json.loads((self.place / JOBS).read_text(encoding="utf-8"))]

    def finished(self) -> list[float]:
        """When each finished trial became durable, in order."""
        return sorted(path.stat().st_mtime for path in (self.storage / TRIALS).glob(f"*/{MANIFEST}"))

    def sweep(self, look: Look = lambda pid: None, stop_after: int = 0) -> Sweep:
        """Run the command, and call `look` with its process every second.

        It is interrupted once `stop_after` trials are durable (0: never). Raises RuntimeError where it fails.
        """
        self.place.mkdir(parents=True, exist_ok=True)
        (self.place / PARTS).unlink(missing_ok=True)
        driven = [sys.executable, "-m", "benchmarks.workflow.with_notes", self.place, self.kind]
        command = [*driven, "sweep", *self.arguments, "--storage", self.storage]
        started, peaks = time.perf_counter(), (0.0, 0.0)
        with (self.place / "output.txt").open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                command, cwd=self.place, env=self._environment(), stdout=output, stderr=subprocess.STDOUT
            )
            while process.poll() is None:
                time.sleep(1)
                with contextlib.suppress(OSError, ValueError):  # it has just ended
                    peaks = tuple(max(pair) for pair in zip(peaks, memory(process.pid), strict=True))
                    look(process.pid)
                if stop_after and len(self.finished()) >= stop_after:
                    process.send_signal(signal.SIGINT)
                    stop_after = 0
        wall = time.perf_counter() - started
        if process.returncode not in (0, 130):
            raise RuntimeError(f"the sweep in {self.place} ended with {process.returncode}:\n{self._last_words()}")
        return Sweep(wall, dict(self._parts()), *peaks)

    def _environment(self) -> dict[str, str]:
        return child_environment(MLFLOW_TRACKING_URI=f"sqlite:///{self.database}")

    def _parts(self) -> Iterator[tuple[str, tuple[float, float]]]:
        path = self.place / PARTS
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
            name, began, ended = json.loads(line)
            yield name, (began, ended)

    def _last_words(self) -> str:
        return (self.place / "output.txt").read_text(encoding="utf-8")[-2000:]


def memory(pid: int) -> tuple[float, float]:
    """MB of a process: resident, and with shared pages in proportion."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    resident, proportional = (int(re.search(rf"^{name}: +(\d+) kB", text, re.M)[1]) for name in ("Rss", "Pss"))  # type: ignore[index]
    return resident * 1024 / MEGABYTE, proportional * 1024 / MEGABYTE


def mapped(pid: int, folder: Path) -> float:
    """MB that a process holds of the files below a folder, pages that it shares in proportion."""
    held, below = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            below = f" {folder}/" in line
        elif below and line.startswith("Pss:"):
            held += int(line.split()[1])
    return held * 1024 / MEGABYTE
