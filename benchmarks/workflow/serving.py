"""`proser serve`, by itself and with replicas, under load against plain `mlflow models serve`, and the alias moved in
mid-load. Only by name."""

import asyncio
import base64
import io
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest import mock

import aiohttp
import numpy as np
import psutil
from PIL import Image

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Cell, Report, Table, Target
from benchmarks.harness.timing import spread
from benchmarks.variants.step_processes import free_port
from pipelines.recipes import cifar100_cpu
from pipelines.tracking.registry import register
from pipelines.tracking.runs import run_of_its_own
from pipelines.tracking.server import connect
from pipelines.tracking.versions import CHAMPION
from proser_core.config import to_json
from proser_core.data.splits.class_split import ClassSplit
from proser_core.jobs.probe import NORMALISATION
from proser_core.networks.nets import add_placeholders, make_closed_set_net
from proser_core.recognition.calibration import Calibration
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scores import MaxLogit
from proser_core.titles import counted

NAME, NUM_CLASSES, NUM_DUMMIES = "served", 15, 5
URI = f"models:/{NAME}@{CHAMPION}"
PATIENCE = 120.0  # seconds in which a server must be up
CLIENTS = (1, 8, 32)
PROCESSES = (1, 2)  # workers of MLflow's server, and replicas of ours
MOVED_WITH = 8  # clients while the alias moves
IMAGES = 64
LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class Server:
    """A server by name: how it is started, what says that it is up, and what one image is sent as."""

    name: str
    command: list[str]
    address: str
    ready: str
    bodies: list[bytes]
    kind: str


@dataclass
class Load:
    """What a bounded load met with: seconds of each request that was answered, how many were not, and all seconds."""

    seconds: float = 0.0
    each: list[float] = field(default_factory=list)
    failed: int = 0
    versions: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Images a second."""
        return len(self.each) / self.seconds

    def milliseconds(self, percentile: float) -> float:
        """A percentile of the requests."""
        return 1000 * float(np.percentile(self.each, percentile))


def run(settings: Settings) -> Report:
    """Both servers up, the same load on each in turn; the tracking server is as before afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with mock.patch.dict(os.environ, MLFLOW_TRACKING_URI=f"sqlite:///{place}/mlflow.db"):
            return _run(settings, place)


def _run(settings: Settings, folder: Path) -> Report:
    requests, rounds = (40, 1) if settings.quick else (400, 5)
    second = _register(folder, settings)
    files = _files(settings)
    ours, theirs = ([make(files, count) for count in PROCESSES] for make in (_ours, _theirs))
    servers = [*ours, *theirs]
    with ExitStack() as stack:
        for server in servers:
            stack.enter_context(_running(server, folder))
            _load(server, 8, requests // 4)  # warm
        found: dict[tuple[str, int], list[Load]] = {(s.name, n): [] for n in CLIENTS for s in servers}
        for clients in CLIENTS:
            for _ in range(rounds):
                for server in servers:  # in turn: what else the machine does meets all of them
                    found[server.name, clients].append(_load(server, clients, _enough(requests, clients)))
        moved = _load(ours[0], MOVED_WITH, 2 * requests, lambda: _move(second))
    rows: list[tuple[Cell, ...]] = []
    for (name, clients), loads in found.items():
        rates = spread([load.rate for load in loads])
        latencies = [spread([load.milliseconds(percentile) for load in loads])[0] for percentile in (50, 99)]
        rows.append((name, clients, *rates, *latencies, sum(load.failed for load in loads)))
    before, after = (moved.versions.count(version) for version in ("1", second))
    columns = ("server", "clients", "images/s", "q1", "q3", "p50 ms", "p99 ms", "failed")
    notes = (
        f"{rounds} rounds of {requests} requests, {_enough(requests, 1)} of one client, each of one PNG of "
        f"{settings.image_size} pixels, servers and client on the same cores.",
        f"Alias moved in mid-load, {MOVED_WITH} clients: {before} answers by the version before, {after} by the one "
        f"after, {moved.failed} failed, p99 {moved.milliseconds(99):.0f} ms.",
    )
    lost = sum(load.failed for loads in found.values() for load in loads) + moved.failed
    ratios, targets = _ratios(found, ours, theirs)
    targets.append(Target("requests that failed, with the alias moved in mid-load", float(lost), 0.0, False, ""))
    ratio_columns = ("times as fast as", *(counted(clients, "client") for clients in CLIENTS))
    return Report([Table("Servers under load", columns, rows, notes), Table("Ratios", ratio_columns, ratios)], targets)


def _ratios(
    found: dict[tuple[str, int], list[Load]], ours: list[Server], theirs: list[Server]
) -> tuple[list[tuple[Cell, ...]], list[Target]]:
    """Medians over the rounds of the rate of each of our servers by that of each of MLflow's; a target for as many
    processes of each."""
    rows: list[tuple[Cell, ...]] = []
    targets = []
    for count, own in zip(PROCESSES, ours, strict=True):
        for workers, other in zip(PROCESSES, theirs, strict=True):
            medians = [
                spread([a.rate / b.rate for a, b in zip(found[own.name, n], found[other.name, n], strict=True)])[0]
                for n in CLIENTS
            ]
            rows.append((f"{own.name}: {other.name}", *medians))
            if workers == count or count == 1:
                targets += [
                    Target(f"{own.name} against {other.name}, {counted(n, 'client')}", median, 2.0)
                    for n, median in zip(CLIENTS, medians, strict=True)
                ]
    return rows, targets


def _enough(requests: int, clients: int) -> int:
    """One client waits for each answer: a quarter of the requests takes as long."""
    return requests // 4 if clients == 1 else requests


def _load(server: Server, clients: int, requests: int, halfway: Callable[[], None] | None = None) -> Load:
    """So many requests by clients that each send the next one once they have an answer."""
    load = Load()
    work = iter(range(requests))

    async def client(session: aiohttp.ClientSession) -> None:
        for number in work:
            if halfway is not None and number == requests // 2:
                await asyncio.to_thread(halfway)
            body, started = server.bodies[number % len(server.bodies)], time.perf_counter()
            try:
                async with session.post(server.address, data=body, headers={"Content-Type": server.kind}) as answer:
                    content = await answer.json()
                    if answer.status != 200:
                        load.failed += 1
                        continue
            except aiohttp.ClientError:
                load.failed += 1
                continue
            load.each.append(time.perf_counter() - started)
            load.versions.append(content.get("version", ""))

    async def all_clients() -> None:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            started = time.perf_counter()
            await asyncio.gather(*(client(session) for _ in range(clients)))
            load.seconds = time.perf_counter() - started

    asyncio.run(all_clients())
    if not load.each:
        raise RuntimeError(f"{server.name} answered none of {requests} requests")
    return load


def _move(version: str) -> None:
    connect().set_registered_model_alias(NAME, CHAMPION, version)


def _register(folder: Path, settings: Settings) -> str:
    """Two versions of a network as the recipe has it, untrained, which costs the same; the second one's number."""
    recipe = cifar100_cpu()
    closed_set = make_closed_set_net(recipe.network, NUM_CLASSES, settings.image_size, seed=0)
    classifier = OpenSetClassifier(
        net=add_placeholders(closed_set, NUM_DUMMIES, seed=0),
        network=recipe.network,
        image_size=settings.image_size,
        split=ClassSplit(tuple(range(NUM_CLASSES)), (), ()),
        class_names=tuple(f"class {number}" for number in range(NUM_CLASSES)),
        normalisation=NORMALISATION,
        score_function=MaxLogit(),
        calibration=Calibration(0.0, 0.95, 0.95, 100, (0.9, 1.0)),
        recipe=to_json(recipe),
    )
    client, version = connect(creates=True), ""
    for bias in (0.0, 1.0):
        changed = replace(classifier, calibration=replace(classifier.calibration, bias=bias))
        place = folder / f"bias {bias}"
        changed.save(place)
        version = register(client, run_of_its_own(client, "untrained"), NAME, place, str(bias), {}).version
    return version


def _files(settings: Settings) -> list[bytes]:
    size = settings.image_size
    pixels = np.random.default_rng(0).integers(0, 256, (IMAGES, size, size, 3), dtype=np.uint8)
    files = [io.BytesIO() for _ in pixels]
    for file, image in zip(files, pixels, strict=True):
        Image.fromarray(image).save(file, "PNG")
    return [file.getvalue() for file in files]


def _ours(files: list[bytes], replicas: int) -> Server:
    root = f"http://{LOCAL}:{(port := free_port())}"
    command = [sys.executable, "-m", "pipelines.cli", "serve", URI, "--port", str(port), "--reload-pause", "0.5"]
    name = "proser serve" if replicas == 1 else f"proser serve, {replicas} replicas"
    command += ["--replicas", str(replicas)]
    return Server(name, command, f"{root}/predict", f"{root}/health", files, "image/png")


def _theirs(files: list[bytes], workers: int) -> Server:
    root = f"http://{LOCAL}:{(port := free_port())}"
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", URI, "--env-manager", "local"]
    command += ["--port", str(port), "--host", LOCAL, "--workers", str(workers)]
    bodies = [
        b'{"dataframe_split": {"columns": ["image"], "data": [["' + base64.b64encode(file) + b'"]]}}' for file in files
    ]
    return Server(
        f"mlflow models serve, {counted(workers, 'worker')}",
        command,
        f"{root}/invocations",
        f"{root}/ping",
        bodies,
        "application/json",
    )


@contextmanager
def _running(server: Server, folder: Path) -> Iterator[None]:
    """From the moment on when it answers; all of its processes end with it."""
    programs = str(Path(sys.executable).parent)  # where an activated environment has the `uvicorn` that MLflow starts
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    log = folder / f"{server.name}.log"
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(server.command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + PATIENCE
        while not _answers(server.ready):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{server.name} did not come up: {log.read_text(encoding='utf-8')}")
            time.sleep(0.2)
        yield
    finally:
        with suppress(psutil.NoSuchProcess):
            server_process = psutil.Process(process.pid)
            for each in [server_process, *server_process.children(recursive=True)]:
                each.kill()
        process.wait()


def _answers(address: str) -> bool:
    with suppress(OSError):
        urllib.request.urlopen(address, timeout=5).close()
        return True
    return False
