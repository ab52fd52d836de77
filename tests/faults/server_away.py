"""The MLflow server goes away in mid-sweep: for a minute, or until after the sweep has ended."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from lab import Lab
from losses import Loss
from sweeps import require
from tracking_servers import mlflow_server

from pipelines.ports import free_ports
from pipelines.tracking.deferred import TIMEOUT_VARIABLE

AWAY, QUICKLY = 60, 10  # seconds
PATIENCE = "5"


class Server:
    """An MLflow server on SQLite that goes and comes back, at one address."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder, (self._port,), self._running = folder, free_ports(1), ExitStack()

    def come(self) -> str:
        """Its address, once it answers."""
        database = f"sqlite:///{self._folder / 'server.db'}"
        return self._running.enter_context(mlflow_server(database, self._folder, self._port))

    def go(self) -> None:
        """Kill it."""
        self._running.close()


@contextmanager
def _server(folder: Path) -> Iterator[tuple[Server, dict[str, str]]]:
    """A server that answers, and the environment of who logs to it."""
    server = Server(folder)
    try:
        yield server, {"MLFLOW_TRACKING_URI": server.come()}
    finally:
        server.go()


def for_a_minute(lab: Lab) -> Loss:
    """The MLflow server is killed and comes back; the sweep goes on without it, and logs the rest at its end."""
    undisturbed, seconds = lab.undisturbed(), QUICKLY if lab.quick else AWAY
    with _server(lab.root / "minute") as (server, environment):
        with lab.sweep(environment=environment) as sweep:
            sweep.begin()
            sweep.until_epochs(sum(undisturbed.epochs.values()) // 3)
            sweep.strike([])
            server.go()
            time.sleep(seconds)
            server.come()
            sweep.ended(0)
            require("metrics cannot be logged now" in sweep.printed(), "the sweep never missed the server")
        return Loss.of(f"MLflow server gone for {seconds} s", sweep, undisturbed)


def for_good(lab: Lab) -> Loss:
    """The MLflow server stays away and the sweep ends with code 1; the same command logs the rest later."""
    undisturbed = lab.undisturbed()
    with _server(lab.root / "for_good") as (server, environment):
        with lab.sweep(environment=environment) as sweep:
            sweep.begin(**{TIMEOUT_VARIABLE: PATIENCE})
            sweep.until_epochs(1)
            sweep.strike([])
            server.go()
            said = sweep.ended(1)
            require(
                "the same command logs the rest once that is fixed" in said, f"not said what is lost: {said[-300:]}"
            )
            trained = len(sweep.diary.epochs)
            server.come()
            sweep.begin()
            sweep.ended(0)
            require(len(sweep.diary.epochs) == trained, "the command that was to log trained")
        return Loss.of("MLflow server gone from the first epoch on", sweep, undisturbed)
