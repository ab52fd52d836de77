"""`proser ui`: MLflow's own server over the database that `proser run` writes."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass

from pipelines.commands.parsing import parse
from pipelines.ports import check_listens, check_port
from pipelines.tracking.server import UI_PORT, connect, experiment_id, shown_uri, sqlite_file, tracking_uri


@dataclass(frozen=True)
class UiRequest:
    """Serve the MLflow UI on this machine."""

    port: int = UI_PORT
    """Port on 127.0.0.1."""


def main(arguments: list[str]) -> int:
    """Serve until Ctrl-C or SIGTERM: 0, or 1 where the server ends by itself; or name the tracking server that shows
    the runs."""
    request = parse(UiRequest, "ui", arguments)
    uri = tracking_uri()
    if uri.startswith("http"):
        print(f"the runs are on your tracking server: {shown_uri()}")
        return 0
    check_port(request.port)
    from pipelines.tracking.views import newest_view, runs_link  # loads mlflow: not for --help

    file = sqlite_file(uri)
    is_new = file is not None and not file.exists()
    client = connect(creates=is_new)
    if is_new:
        print(f"no runs yet: {file} is new. To see the runs of another folder, run `proser ui` there")
    experiment = experiment_id(client, needs_artefacts=False)
    address = runs_link(f"http://127.0.0.1:{request.port}", experiment, newest_view(client, experiment))
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(request.port)]
    command += ["--workers", "1", "--uvicorn-opts", "--log-level warning"]
    quiet = {
        "MLFLOW_LOGGING_LEVEL": "WARNING",
        "PYTHONWARNINGS": "ignore",
        "MLFLOW_REGISTRY_STORE_URI": uri,
    } | os.environ
    environment = quiet | {"MLFLOW_BACKEND_STORE_URI": uri}  # other users see a command line, password and all
    server = subprocess.Popen(command, env=environment, start_new_session=True)  # Ctrl-C is answered here
    try:
        while server.poll() is None:
            with suppress(OSError):
                check_listens("127.0.0.1", request.port)
                print(f"{address}  (stop with Ctrl-C)", flush=True)
                break
            time.sleep(0.2)
        server.wait()
    except KeyboardInterrupt:  # or what terminates it
        return 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
        server.wait()
    print("proser: MLflow's server has ended", file=sys.stderr)
    return 1
