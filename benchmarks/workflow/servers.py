"""Servers of one registered model under load: ours and MLflow's, and clients that wait for each answer."""

import asyncio
import base64
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import numpy as np
import psutil

from pipelines.ports import free_ports
from proser_core.titles import counted

STARTUP_TIMEOUT_S = 120.0
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
    """What a number of requests met with: seconds in all and of each that was answered, and how many failed."""

    seconds: float = 0.0
    each: list[float] = field(default_factory=list)
    failed: int = 0
    versions: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Images per second."""
        return len(self.each) / self.seconds

    def milliseconds(self, percentile: float) -> float:
        """A percentile of the requests."""
        return 1000 * float(np.percentile(self.each, percentile))


def our_server(uri: str, files: list[bytes], replicas: int) -> Server:
    """`proser serve` of a model, by itself or with so many replicas behind HAProxy."""
    (port,) = free_ports(1)
    root = f"http://{LOCAL}:{port}"
    command = [sys.executable, "-m", "pipelines.cli", "serve", uri, "--port", str(port), "--reload-pause", "0.5"]
    name = "proser serve" if replicas == 1 else f"proser serve, {replicas} replicas"
    command += ["--replicas", str(replicas)]
    return Server(name, command, f"{root}/predict", f"{root}/health", files, "image/png")


def mlflow_server(uri: str, files: list[bytes], workers: int) -> Server:
    """`mlflow models serve` of the same, with so many workers."""
    (port,) = free_ports(1)
    root = f"http://{LOCAL}:{port}"
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", uri, "--env-manager", "local"]
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


def load_on(server: Server, clients: int, requests: int, halfway: Callable[[], None] | None = None) -> Load:
    """Send so many requests, by clients that each wait for an answer before the next one.

    `halfway` is called before the middle one. Raises RuntimeError where none is answered.
    """
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


@contextmanager
def running(server: Server, folder: Path) -> Iterator[None]:
    """Start a server, wait until it answers, and end all of its processes afterwards."""
    programs = str(Path(sys.executable).parent)  # where an activated environment has the `uvicorn` that MLflow starts
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    log = folder / f"{server.name}.log"
    with log.open("w", encoding="utf-8") as output:
        process = subprocess.Popen(server.command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + STARTUP_TIMEOUT_S
        while not _answers(server.ready):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{server.name} did not come up: {log.read_text(encoding='utf-8')}")
            time.sleep(0.2)
        yield
    finally:
        if process.poll() is None:
            server_process = psutil.Process(process.pid)
            for each in [server_process, *server_process.children(recursive=True)]:
                with suppress(psutil.NoSuchProcess):
                    each.kill()
        process.wait()


def _answers(address: str) -> bool:
    with suppress(OSError):
        urllib.request.urlopen(address, timeout=5).close()
        return True
    return False
