"""A sweep as a process of its own, in a folder of its own: how long its parts took, and what its driver held."""

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.process_memory import memory
from benchmarks.workflow.commands import child_environment
from benchmarks.workflow.with_notes import JOBS, PARTS
from proser_core.jobs.spec import TRIALS, Job
from proser_core.store.store import MANIFEST

OUTPUT = "output.txt"
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
        """Where artefacts lie."""
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

    def sweep(self, look: Look = lambda pid: None) -> Sweep:
        """Run the command, and call `look` with its process every second. Raises RuntimeError where it fails."""
        self.place.mkdir(parents=True, exist_ok=True)
        (self.place / PARTS).unlink(missing_ok=True)
        noted = [sys.executable, "-m", "benchmarks.workflow.with_notes", str(self.place), self.kind]
        command = [*noted, "sweep", *self.arguments, "--storage", str(self.storage)]
        environment = child_environment(MLFLOW_TRACKING_URI=f"sqlite:///{self.database}")
        started, resident, proportional = time.perf_counter(), 0.0, 0.0
        with (self.place / OUTPUT).open("w", encoding="utf-8") as output:
            process = subprocess.Popen(
                command, cwd=self.place, env=environment, stdout=output, stderr=subprocess.STDOUT
            )
            while process.poll() is None:
                time.sleep(1)
                with contextlib.suppress(OSError, KeyError):  # it has just ended
                    now = memory(process.pid)
                    resident, proportional = max(resident, now[0]), max(proportional, now[1])
                    look(process.pid)
        wall = time.perf_counter() - started
        if process.returncode:
            words = (self.place / OUTPUT).read_text(encoding="utf-8")[-2000:]
            raise RuntimeError(f"the sweep in {self.place} ended with {process.returncode}:\n{words}")
        return Sweep(wall, dict(self._parts()), resident, proportional)

    def _parts(self) -> Iterator[tuple[str, tuple[float, float]]]:
        path = self.place / PARTS
        for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
            name, began, ended = json.loads(line)
            yield name, (began, ended)
