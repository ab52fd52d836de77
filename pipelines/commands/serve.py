"""`proser serve MODEL`: predict over HTTP."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Annotated

from rich.console import Console

from pipelines.commands.model_options import ClusterDevice, Model, chosen_device
from pipelines.commands.parsing import parse
from pipelines.console import console, say
from pipelines.ports import check_port, check_port_number
from pipelines.serving.haproxy import haproxy_before_replicas
from pipelines.serving.limits import Limits
from pipelines.serving.monitor import ReplicaMonitor
from pipelines.tracking.server import tracking_uri
from pipelines.workflow.requests import UNNAMED
from proser_core.errors import ConfigError

if TYPE_CHECKING:
    from pipelines.serving.access import Access

LONGEST_PAUSE_S = 86_400
Ask = Callable[[float], dict[str, str]]
"""The state of any one of the processes that serve, within so many seconds."""


@dataclass(frozen=True)
class ServeRequest:
    """Serve a model over HTTP: open the address in a browser and drop images on the page, POST image files to /predict,
    or speak the Open Inference Protocol; /docs shows all routes. Requests that arrive together are classified together.
    When an alias moves, its new version is served without a pause."""

    model: Model
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 is every address of this machine. Without a token, anyone may use it."""
    port: int = 8000
    """Port to listen on."""
    allowed_hosts: tuple[str, ...] = ()
    """Further host names under which requests may reach this server, and whose pages may call it; * is any. Addresses
    and localhost are always allowed."""
    token_file: Path | None = None
    """File with the token that requests need; without it, the environment variable PROSER_TOKEN is read."""
    replicas: str = "1"
    """1 serves in this process. With 2 or more, Ray Serve starts that many processes, each with one CPU, or one GPU
    with --device cuda; 1-4 lets their number follow the load."""
    device: ClusterDevice = "auto"
    address: str = ""
    """Ray cluster to serve on, `auto` or host:port; empty serves on this machine."""
    limits: Annotated[Limits, UNNAMED] = field(default_factory=Limits)
    max_waiting: int = 256
    """Largest number of requests in a process at a time; further ones get a 503."""
    reload_pause: float = 5.0
    """Seconds between two checks of the alias; 0 keeps the first version."""

    def __post_init__(self) -> None:
        if self.max_waiting < 1:
            raise ConfigError(f"--max-waiting got {self.max_waiting}; need 1 or more")
        if not 1 <= self.least_and_most[0] <= self.least_and_most[1]:
            raise ConfigError(f"--replicas got {self.replicas}; need a number such as 2, or a range such as 1-4")
        if not self.host:
            raise ConfigError(
                "--host got an empty name; need an address, such as 127.0.0.1, or 0.0.0.0 for all networks"
            )
        never = next((host for host in self.allowed_hosts if host != "*" and re.search(r"[/*]|[^!-~]", host)), None)
        if never is not None:
            raise ConfigError(
                f"--allowed-hosts got {never!r}, which no request names; need whole names of hosts, such as "
                "models.example.org or xn--bcher-kva.example, or * for any"
            )
        check_port_number(self.port)
        if not 0 <= self.reload_pause <= LONGEST_PAUSE_S:
            raise ConfigError(
                f"--reload-pause got {self.reload_pause:g}; need seconds from 0 (never) to {LONGEST_PAUSE_S:,} (a day)"
            )

    @property
    def least_and_most(self) -> tuple[int, int]:
        """The least and the largest number of replicas; zeros where they are no numbers."""
        found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", self.replicas)
        return (int(found[1]), int(found[2] or found[1])) if found else (0, 0)

    @property
    def in_one_process(self) -> bool:
        """Whether the process of the command serves by itself, without Ray."""
        return not self.address and self.least_and_most == (1, 1)


def main(arguments: list[str]) -> int:
    """Serve."""
    return serve(parse(ServeRequest, "serve", arguments), console())


def serve(request: ServeRequest, console: Console) -> int:
    """Serve until Ctrl-C or SIGTERM: 0, or 1 where nothing answers any more. Raises ProserError for a model that does
    not exist, a port that is taken, or a cluster that is too small."""
    from pipelines.serving.access import TOKEN, Access, read_token  # loads starlette: not for --help

    asked = "cpu" if request.device == "auto" and not request.in_one_process else request.device
    request = replace(request, device=chosen_device(asked, console, request.address))
    token = read_token(request.token_file, os.environ.pop(TOKEN, None))
    if not request.address:
        check_port(request.port, request.host)
    access = Access(request.allowed_hosts, token, request.host)
    with _stop_signals() as listen, _served(request, access, console) as (ask, status):
        signals = listen()
        state = ask(60)
        say(console, f"{state['model']}: {state['classes']} classes, and unknown")
        address = f"http://{f'[{request.host}]' if ':' in request.host else request.host}:{request.port}"
        say(console, f"{address}  (for programs: {address}/predict; all routes: /docs; stop with Ctrl-C)")
        several = request.least_and_most[1] > 1
        return ReplicaMonitor(ask, state["model"], several, console, status).until(signals)


@contextmanager
def _served(request: ServeRequest, access: "Access", console: Console) -> Iterator[tuple[Ask, Callable[[], str]]]:
    """One process answers by itself: Ray Serve's proxy would only be a second one on the way to it."""
    import torch  # and ray and mlflow below: not for --help

    from pipelines.serving.recogniser import Options
    from pipelines.tracking.models import load

    uri = request.model if request.model.startswith("models:") else str(Path(request.model).absolute())
    cores = 1 if request.address else torch.get_num_threads()  # as the user or the system bounds them
    options = Options(
        uri, tracking_uri(), request.device, request.limits, request.max_waiting, request.reload_pause, access, cores
    )
    if request.in_one_process:
        from pipelines.serving.local_server import local_server

        with local_server(options, request.host, request.port) as ask:
            yield ask, lambda: ""
        return
    version = load(uri).version  # its errors belong here, not in the log of a replica
    if version is not None and not request.reload_pause:
        options = replace(options, model=f"models:/{version.name}/{version.number}")  # whatever the alias means later
    with nullcontext() if request.address else haproxy_before_replicas(options.longest_request):
        from pipelines.cluster.session import check_room, join  # loads ray, which reads what is set above

        join(request.address, option="--address")
        from pipelines.serving.ray_server import application_status, deploy, ray_serve  # after `join`

        with ray_serve(request.host, request.port, request.address, options.longest_request):
            least, most = request.least_and_most
            check_room("--replicas", least, request.device, request.address)
            say(console, f"starting replicas: {request.replicas}")
            yield deploy(options, (least, most)), application_status


@contextmanager
def _stop_signals() -> Iterator[Callable[[], SimpleQueue[int]]]:
    """A function that returns a queue, into which Ctrl-C and SIGTERM go from then on; a second signal does not
    interrupt the shutdown that the first began."""
    signals: SimpleQueue[int] = SimpleQueue()  # of an Event, `set` in a handler can deadlock with `wait`
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: FrameType | None) -> None:
        signals.put(number)

    def listen() -> SimpleQueue[int]:
        for number in before:
            signal.signal(number, stop)
        return signals

    try:
        yield listen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
