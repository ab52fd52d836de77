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

from pipelines.console import say
from pipelines.own_images import check_device
from pipelines.ports import check_port
from pipelines.ray_session import join
from pipelines.serving.limits import Limits
from pipelines.tracking.models import load
from pipelines.tracking.server import tracking_uri
from proser_core.errors import ClusterError, ConfigError, first_line

APPLICATION = "proser"
LOOK = 2.0  # seconds between two looks at what is served, for the terminal


@dataclass(frozen=True)
class ServeRequest:
    """A model by URI or folder, and how it is served. Pauses in seconds; a `reload_pause` of 0 is no reload.

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
    batch_pause: float = 0.005
    reload_pause: float = 5.0

    def __post_init__(self) -> None:
        for name, least in (("replicas", 1), ("max_waiting", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"--{name.replace('_', '-')} got {getattr(self, name)}; need {least} or more")
        if not 1 <= self.port <= 65535:
            raise ConfigError(f"--port got {self.port}; need 1 to 65535")
        for name in ("batch_pause", "reload_pause"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ConfigError(f"--{name.replace('_', '-')} got {value}; need 0 or more seconds")


def serve_model(request: ServeRequest, console: Console) -> int:
    """Serve until Ctrl-C or SIGTERM; 0, or 1 where no replica is left that answers.

    Raises ProserError for a model that is not there, a port that is taken, or a cluster that is too small.
    """
    if not request.address:
        check_device(request.device)
        check_port(request.port, request.host)
    model = load(request.model)  # what is wrong with it is said here, and not in the log of a replica
    join(request.address, option="--address")
    from ray import serve

    _check_room(request)
    if APPLICATION in serve.status().applications:
        raise ClusterError(f"the cluster at {request.address} serves a model already; stop that `proser serve` first")
    try:
        handle, port = _start(request)
        say(console, f"{model.title}: {len(model.classifier.class_names)} classes, and unknown")
        say(console, f"http://{request.host}:{port}/predict  (what is served: / and /health; Ctrl-C ends it)")
        with _stopped() as stopped:
            return _watch(handle, model.title, stopped, console)
    finally:
        serve.delete(APPLICATION)  # ends what it has begun; a Ray of its own goes with this process


def _start(request: ServeRequest) -> tuple[Any, int]:
    """The application, once it answers, and its port: where Ray Serve runs already on a cluster, its own.

    Raises ClusterError where it does not come up.
    """
    import ray
    from ray import serve
    from ray.serve.context import _get_global_client

    from pipelines.serving.application import Recogniser, ReplicaOptions

    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    model = request.model if request.model.startswith("models:") else str(Path(request.model).absolute())
    options = ReplicaOptions(
        model, tracking_uri(), request.device, request.limits, request.reload_pause, request.batch_pause
    )
    deployment = Recogniser.options(  # type: ignore[attr-defined]
        num_replicas=request.replicas,
        max_ongoing_requests=request.max_waiting,
        max_queued_requests=request.max_waiting,
        ray_actor_options={"num_cpus": 1, "num_gpus": 1 if request.device == "cuda" else 0},
        logging_config={"enable_access_log": False},
    )
    try:
        serve.start(http_options={"host": request.host, "port": request.port})
        handle = serve.run(deployment.bind(options), name=APPLICATION, route_prefix="/")
        return handle, _get_global_client().http_config.port
    except (RuntimeError, ray.exceptions.RayError) as error:
        raise ClusterError(
            f"the server did not come up ({first_line(error)}); the log of its replica is in Ray's folder of logs"
        ) from error


def _check_room(request: ServeRequest) -> None:
    """Raises ClusterError where replicas would wait for a place for ever."""
    import ray

    kind = "GPU" if request.device == "cuda" else "CPU"
    has = ray.cluster_resources().get(kind, 0.0)
    if has < request.replicas:
        where = f"the cluster at {request.address}" if request.address else "this machine"
        raise ClusterError(f"--replicas {request.replicas} need a {kind} each; {where} has {has:g}. Give fewer")


def _watch(handle: Any, title: str, stopped: threading.Event, console: Console) -> int:
    """Say when another version is served, and what stands in the way of one."""
    from ray import serve

    problem = ""
    while not stopped.wait(LOOK):
        application = serve.status().applications.get(APPLICATION)
        if application is None or application.status in ("DEPLOY_FAILED", "DELETING"):
            say(console, f"the server ended: {application.message if application else 'someone shut it down'}")
            return 1
        with suppress(Exception):  # a replica that is being replaced; the next look sees the new one
            state = handle.state.remote().result(timeout_s=LOOK)
            if state["model"] != title:
                title = state["model"]
                say(console, f"now {title}")
            if state["problem"] != problem:
                problem = state["problem"]
                say(console, f"still {title}: {problem}" if problem else f"{title}: the registry answers again")
    return 0


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
