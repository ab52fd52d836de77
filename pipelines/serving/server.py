"""`proser serve`: start the application on this machine or on a cluster, tell what it serves, stop it cleanly."""

import logging
import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from pipelines.cluster.ray_internals import serve_http_address
from pipelines.cluster.session import join
from pipelines.cluster.train_worker import last_line
from pipelines.console import say
from pipelines.inference.labelled_folder import check_device
from pipelines.ports import check_port, check_port_number
from pipelines.serving.limits import Limits
from pipelines.serving.monitor import APPLICATION, Watch
from pipelines.tracking.models import load
from pipelines.tracking.server import tracking_uri
from proser_core.errors import ClusterError, ConfigError


@dataclass(frozen=True)
class ServeRequest:
    """A model by URI or folder, and how it is served. The pause in seconds; 0 keeps the version that there is.

    Raises ConfigError for numbers that no server can have.
    """

    model: str
    host: str = "127.0.0.1"
    port: int = 8000
    replicas: int = 1
    device: str = "cpu"
    address: str = ""
    limits: Limits = field(default_factory=Limits)
    max_waiting: int = 128
    reload_pause: float = 5.0

    def __post_init__(self) -> None:
        for name, least in (("replicas", 1), ("max_waiting", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"--{name.replace('_', '-')} got {getattr(self, name)}; need {least} or more")
        check_port_number(self.port)
        if not (math.isfinite(self.reload_pause) and self.reload_pause >= 0):
            raise ConfigError(f"--reload-pause got {self.reload_pause}; need 0 or more seconds")


def serve_model(request: ServeRequest, console: Console) -> int:
    """Serve until Ctrl-C or SIGTERM; 0, or 1 where nothing answers any more.

    Raises ProserError for a model that is not there, a port that is taken, or a cluster that is too small.
    """
    if not request.address:
        check_device(request.device)
        check_port(request.port, request.host)
    uri = request.model if request.model.startswith("models:") else str(Path(request.model).absolute())
    model = load(uri)  # what is wrong with it is said here, and not in the log of a replica
    if model.version is not None and not request.reload_pause:
        uri = f"models:/{model.version.name}/{model.version.number}"  # whatever the alias names by then
    join(request.address, option="--address")
    own = _begin(request)
    try:
        _check_room(request)
        say(console, f"starting {request.replicas} replica(s) of {model.title}")
        handle = _start(request, uri)
        say(console, f"{model.title}: {len(model.classifier.class_names)} classes, and unknown")
        say(console, f"http://{request.host}:{request.port}/predict  (what is served: / and /health; Ctrl-C ends it)")
        with _stopped() as stopped:
            return Watch(handle, model.title, request.replicas, console).until(stopped)
    finally:
        _end(own, bool(request.address))


def _begin(request: ServeRequest) -> bool:
    """Ray Serve on the host and port that were asked for; whether it was started here.

    Raises ClusterError where it runs already on others, or serves a model of ours.
    """
    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    with _errors_named("Ray Serve did not start"):
        listens = serve_http_address()
        if listens is None:
            try:
                serve.start(http_options={"host": request.host, "port": request.port})
            except BaseException:
                serve.shutdown()  # its controller is there before it has the port
                raise
            return True
        applications = serve.status().applications
    if APPLICATION in applications:
        raise ClusterError(
            f"the cluster at {request.address} serves a model already; end its `proser serve`, or, where that is gone, "
            "give `serve shutdown`"
        )
    if listens != (request.host, request.port):
        host, port = listens
        raise ClusterError(
            f"Ray Serve listens on {host}:{port} of the cluster already, and {request.host}:{request.port} was "
            f"asked for; give --host {host} --port {port}, or end it with `serve shutdown`"
        )
    return False


def _start(request: ServeRequest, model: str) -> Any:
    """The application, once it answers. Raises ClusterError where it does not come up."""
    from ray import serve

    from pipelines.serving.application import Recogniser, ReplicaOptions

    options = ReplicaOptions(model, tracking_uri(), request.device, request.limits, request.reload_pause)
    deployment = Recogniser.options(  # type: ignore[attr-defined]
        num_replicas=request.replicas,
        max_ongoing_requests=request.max_waiting,
        max_queued_requests=request.max_waiting,
        ray_actor_options={"num_cpus": 1, "num_gpus": 1 if request.device == "cuda" else 0},
        logging_config={"enable_access_log": False},
    )
    with _errors_named("the server did not come up; its replicas write to Ray's folder of logs"):
        return serve.run(deployment.bind(options), name=APPLICATION, route_prefix="/")


def _end(own: bool, on_cluster: bool) -> None:
    """Let what has begun end. On a cluster Ray Serve goes too, if it was started here and serves nothing else; a Ray
    of this process goes anyway."""
    from ray import serve

    with suppress(Exception):  # it is gone already
        serve.delete(APPLICATION)
    with suppress(Exception):
        if own and on_cluster and not serve.status().applications:
            serve.shutdown()


@contextmanager
def _errors_named(what: str) -> Iterator[None]:
    """Ray's errors as a ClusterError that begins with `what`."""
    import ray
    from ray.serve.exceptions import RayServeException

    try:
        yield
    except (RuntimeError, TimeoutError, RayServeException, ray.exceptions.RayError) as error:
        raise ClusterError(f"{what} ({last_line(error)})") from error


def _check_room(request: ServeRequest) -> None:
    """Raises ClusterError where replicas would wait for a place for ever."""
    import ray

    for kind in ("CPU", "GPU") if request.device == "cuda" else ("CPU",):
        has, free = (found.get(kind, 0.0) for found in (ray.cluster_resources(), ray.available_resources()))
        if free < request.replicas:
            where = f"the cluster at {request.address}" if request.address else "this machine"
            raise ClusterError(
                f"--replicas {request.replicas} need a {kind} each; {where} has {has:g}, {free:g} of them free. Give "
                "fewer, or wait for what runs there"
            )


@contextmanager
def _stopped() -> Iterator[threading.Event]:
    """Set by Ctrl-C and by SIGTERM, which is how machines are told to stop."""
    event = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        event.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield event
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
