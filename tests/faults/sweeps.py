"""A small `proser sweep` as a user runs it: a process of its own, a storage and a tracking server."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from diary import Diary, Strike

FOUR = '''"""Four points: six trials, with the recipe's own and the control."""

from ray import tune


def param_space():
    return {"finetune": {"beta": tune.grid_search([0.5, 2.0]), "gamma": tune.grid_search([0.1, 1.0])}}
'''
ONE = '''"""The recipe's own point: two trials, with the control."""

from ray import tune


def param_space():
    return {"finetune": {"beta": tune.grid_search([1.0])}}
'''
PRETRAIN_EPOCHS, EPOCHS = 4, 6
SMALL = ["--data.image-size", "8", "--precision", "fp32", "--cluster.pretrain-workers", "1"]
SMALL += ["--pretrain.epochs", str(PRETRAIN_EPOCHS), "--finetune.epochs", str(EPOCHS)]
LONGEST = 600.0  # seconds that anything is waited for
GONE = 60.0  # seconds in which the processes of a sweep that ended must be gone


class BrokenError(Exception):
    """A requirement does not hold."""


def require(condition: bool, otherwise: str) -> None:
    """Raise BrokenError, with what was seen, unless a condition holds."""
    if not condition:
        raise BrokenError(otherwise)


class Sweep:
    """One sweep and all the commands that it takes; each goes on where the one before was stopped."""

    def __init__(
        self,
        folder: Path,
        options: Sequence[str] = (),
        *,
        space: str = FOUR,
        environment: dict[str, str] | None = None,
        storage: Path | None = None,
        uri: str = "",
    ) -> None:
        """`uri` is what the command is given where that is not the folder `storage`, which then shows what it holds."""
        folder.mkdir()
        (folder / "space.py").write_text(space)
        self.folder, self.storage = folder, storage or folder / "storage"
        self.diary, self.strikes = Diary(self.storage, bool(uri)), list[Strike]()
        program = [sys.executable, "-m", "pipelines.cli", "sweep", "digits", "./space.py"]
        self._command = [*program, *SMALL, "--storage", uri or str(self.storage), *options]
        self._environment = {
            **os.environ,
            "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
            "OMP_NUM_THREADS": "1",  # a pretraining would take idle cores, and round otherwise than on a cluster
            "PYTHONUNBUFFERED": "1",
            "RAY_TMPDIR": str(folder),
            **(environment or {}),
        }
        self._commands, self._started, self._last_end = 0, 0.0, 0.0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def tracking_uri(self) -> str:
        return self._environment["MLFLOW_TRACKING_URI"]

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process of the newest command."""
        assert self._process is not None
        return self._process

    @contextmanager
    def watched(self) -> Iterator["Sweep"]:
        """Keep its diary; leave nothing of it behind, whatever happens."""
        try:
            with self.diary.kept():
                yield self
        finally:
            left = self.processes()
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=GONE)

    def begin(self, **environment: str) -> None:
        """Give the command, as from a terminal of its own."""
        self._commands += 1
        self._started = self._started or time.monotonic()
        with self._log("out").open("wb") as out, self._log("err").open("wb") as error:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.folder,
                env={**self._environment, **environment},
                stdout=out,
                stderr=error,
                start_new_session=True,
            )

    def ended(self, code: int) -> str:
        """What the command printed, once it has ended with this exit code."""
        try:
            got = self.process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            raise BrokenError(f"the sweep did not end in {LONGEST:.0f} s: {self._tail()}") from None
        self._last_end = time.monotonic()
        require(got == code, f"exit code {got} instead of {code}: {self._tail()}")
        return self.printed()

    @property
    def seconds(self) -> float:
        """From the first command to the end of the last one."""
        return self._last_end - self._started

    def strike(self, trainings: Iterable[str]) -> None:
        """Note that a fault strikes now, and which trainings were in progress where it does."""
        self.strikes.append(Strike(time.monotonic(), frozenset(trainings)))

    def printed(self) -> str:
        return self._log("out").read_text()

    def complained(self) -> str:
        """What the command printed to the standard error."""
        return self._log("err").read_text()

    def until(self, happened: Callable[[], bool], what: str) -> None:
        """Wait for something while the sweep works."""
        end = time.monotonic() + LONGEST
        while not happened():
            require(self.process.poll() is None, f"the sweep ended before {what}: {self._tail()}")
            require(time.monotonic() < end, f"{what} did not happen in {LONGEST:.0f} s: {self._tail()}")
            time.sleep(0.01)

    def until_epochs(self, count: int) -> None:
        """Wait until so many epochs are on disk, of all trainings together."""
        self.until(lambda: self.diary.different_epochs >= count, f"epoch {count}")

    def kill(self) -> None:
        """`kill -9` of the driver alone."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def interrupt(self) -> None:
        """Ctrl-C, which a terminal sends to the driver and to all that it started."""
        os.killpg(self.process.pid, signal.SIGINT)

    def processes(self) -> list[psutil.Process]:
        """What works in its folder now: drivers, Ray, workers."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if Path(process.cwd()).is_relative_to(self.folder):
                    found.append(process)
        return found

    def until_gone(self) -> None:
        """Wait until no process of it is left."""
        end = time.monotonic() + GONE
        while left := self.processes():
            require(time.monotonic() < end, f"still there after {GONE:.0f} s: {', '.join(map(_called, left))}")
            time.sleep(0.2)

    def _tail(self) -> str:
        return " | ".join([*self.printed().splitlines()[-2:], *self.complained().splitlines()[-2:]])

    def _log(self, kind: str) -> Path:
        return self.folder / f"{self._commands}.{kind}"


def _called(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:60]}"
    except psutil.Error:
        return str(process.pid)
