"""An MLflow server over a database, for tests that speak to it through HTTP."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ray_nodes import running


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
