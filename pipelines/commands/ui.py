"""`proser ui`: MLflow's own server over the database that `proser run` writes."""

import contextlib
import os
import subprocess
import sys
from dataclasses import dataclass

from pipelines.commands.parsing import parse
from pipelines.ports import check_port
from pipelines.tracking.server import connect, experiment_id, shown_uri, tracking_uri


@dataclass(frozen=True)
class UiRequest:
    """Serve the MLflow UI on this machine."""

    port: int = 5000
    """Port on 127.0.0.1."""


def main(arguments: list[str]) -> int:
    """Serve until Ctrl-C, or name the tracking server that shows the runs."""
    request = parse(UiRequest, "ui", arguments)
    uri = tracking_uri()
    if uri.startswith("http"):
        print(f"the runs are on your tracking server: {shown_uri()}")
        return 0
    check_port(request.port)
    experiment = experiment_id(connect())
    print(f"http://127.0.0.1:{request.port}/#/experiments/{experiment}/runs  (stop with Ctrl-C)", flush=True)
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(request.port)]
    environment = os.environ | {"MLFLOW_BACKEND_STORE_URI": uri}  # other users see a command line, password and all
    with contextlib.suppress(KeyboardInterrupt):
        return subprocess.call([*command, "--workers", "1"], env=environment)
    return 0
