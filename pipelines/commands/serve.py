"""`proser serve MODEL`: predict over HTTP."""

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Annotated

from rich.console import Console

from pipelines.cluster.session import join
from pipelines.commands.model_options import Device, Model, check_device
from pipelines.commands.parsing import parse
from pipelines.console import console, say
from pipelines.ports import check_port, check_port_number
from pipelines.serving.limits import Limits
from pipelines.serving.monitor import ReplicaMonitor
from pipelines.tracking.server import tracking_uri
from pipelines.workflow.requests import UNNAMED
from proser_core.errors import ConfigError


@dataclass(frozen=True)
class ServeRequest:
    """Serve a model over HTTP: POST one image file, or several in JSON, to /predict. Requests that arrive together are
    classified together. When an alias moves, its new version is served without a pause."""

    model: Model
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 is every address of this machine. There is no authentication."""
    port: int = 8000
    """Port to listen on."""
    replicas: int = 1
    """Processes that classify, each with one CPU, or one GPU with --device cuda."""
    device: Device = "cpu"
    address: str = ""
    """Ray cluster to serve on, `auto` or host:port; empty starts Ray on this machine."""
    limits: Annotated[Limits, UNNAMED] = field(default_factory=Limits)
    max_waiting: int = 128
    """Requests that a replica works on at a time, and requests that wait for a replica; further ones get a 503."""
    reload_pause: float = 5.0
    """Seconds between two polls of the alias; 0 keeps the first version."""

    def __post_init__(self) -> None:
        for name in ("replicas", "max_waiting"):
            if getattr(self, name) < 1:
                raise ConfigError(f"--{name.replace('_', '-')} got {getattr(self, name)}; need 1 or more")
        if not self.host:
            raise ConfigError(
                "--host got an empty name; need an address, such as 127.0.0.1, or 0.0.0.0 for all networks"
            )
        check_port_number(self.port)
        if not (math.isfinite(self.reload_pause) and self.reload_pause >= 0):
            raise ConfigError(f"--reload-pause got {self.reload_pause}; need 0 or more seconds")


def main(arguments: list[str]) -> int:
    """Serve."""
    return serve(parse(ServeRequest, "serve", arguments), console())


def serve(request: ServeRequest, console: Console) -> int:
    """Serve until Ctrl-C or SIGTERM: 0, or 1 where no replica answers any more. Raises ProserError for a model that
    does not exist, a port that is taken, or a cluster that is too small."""
    from pipelines.tracking.models import load  # it loads torch and mlflow: not for --help

    if not request.address:
        check_device(request.device)
        check_port(request.port, request.host)
    uri = request.model if request.model.startswith("models:") else str(Path(request.model).absolute())
    model = load(uri)  # its errors belong here, not in the log of a replica
    if model.version is not None and not request.reload_pause:
        uri = f"models:/{model.version.name}/{model.version.number}"  # whatever the alias means later
    join(request.address, option="--address")
    from pipelines.serving.application import ReplicaOptions  # these load ray, for which `join` sets the environment
    from pipelines.serving.server import application_status, check_room, deploy, ray_serve

    with ray_serve(request.host, request.port, request.address):
        check_room(request.replicas, request.device, request.address)
        say(console, f"starting {request.replicas} replica(s) of {model.title}")
        options = ReplicaOptions(uri, tracking_uri(), request.device, request.limits, request.reload_pause)
        handle = deploy(options, request.replicas, request.max_waiting)
        say(console, f"{model.title}: {len(model.classifier.class_names)} classes, and unknown")
        say(console, f"http://{request.host}:{request.port}/predict  (status: / and /health; stop with Ctrl-C)")
        with _stop_signals() as stopped:
            monitor = ReplicaMonitor(handle, model.title, request.replicas, console, application_status)
            return monitor.until(stopped)


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set."""
    event = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        event.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
