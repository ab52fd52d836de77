"""Servers as processes of their own, and Ray nodes as `ray start` makes them, with token authentication."""

import os
import secrets
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from waiting import started, until

from pipelines.ports import free_ports

RAY, REASON = [sys.executable, "-m", "ray.scripts.scripts"], "DRAIN_NODE_REASON_PREEMPTION"
START = [*RAY, "start", "--block", "--disable-usage-stats"]


@dataclass(frozen=True)
class Head:
    """A head node: its address, the folder that Ray writes to, and the environment of whoever joins it."""

    address: str
    folder: Path
    environment: dict[str, str]


@contextmanager
def head_node(**more: str) -> Iterator[Head]:
    """A head node with one CPU and a token, on ports of its own; `more` are further environment variables."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment = {**clean, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(16), **more}
    (port,) = free_ports(1)
    arguments = ["--head", f"--port={port}", "--num-cpus=1", "--include-dashboard=false"]
    # sockets need a short path; a dying process may still write there
    with tempfile.TemporaryDirectory(prefix="head", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        environment |= {"RAY_TMPDIR": name, "HOME": name}
        with node(arguments, environment, folder / "head.log"):
            written, log = folder / "ray" / "ray_current_cluster", folder / "head.log"
            until(lambda: written.is_file() and written.read_text(), log=log.read_text)  # after it says that it runs
            yield Head(written.read_text(), folder, environment)


@contextmanager
def node(arguments: list[str], environment: dict[str, str], log: Path, before: tuple[str, ...] = ()) -> Iterator[None]:
    """A node from the moment on when it says that it runs; all of its processes end with it."""
    options = {"env": environment, "cwd": log.parent, "stderr": subprocess.STDOUT}
    with log.open("w") as output, started([*before, *START, *arguments], stdout=output, **options) as process:
        until(lambda: "Ray runtime started" in log.read_text(), process, log.read_text)
        yield


def announce_end(head: Head, deadline_s: int) -> None:
    """Announce the end of the node that is not the head, as a cloud does before it takes a spot machine away."""
    listed = "import ray; ray.init(log_to_driver=False); print(*(node['NodeID'] for node in ray.nodes() "
    listed += "if 'node:__internal_head__' not in node['Resources']))"
    environment = {**head.environment, "RAY_ADDRESS": head.address}
    python = [sys.executable, "-c", listed]
    found = subprocess.run(python, env=environment, cwd=head.folder, check=True, capture_output=True, text=True).stdout
    command = [*RAY, "drain-node", "--address", head.address, "--node-id", found.strip(), "--reason", REASON]
    command += ["--reason-message", "to test", "--deadline-remaining-seconds", str(deadline_s)]
    subprocess.run(command, env=environment, cwd=head.folder, check=True, capture_output=True)


@contextmanager
def running(
    command: list[str], environment: dict[str, str], log: Path, ready: str, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A server from the moment on when the address `ready` answers; all of its processes end with it."""
    options = {"env": environment, "stderr": subprocess.STDOUT, "text": True, **options}
    with log.open("w") as output, started(command, stdout=output, **options) as process:
        until(lambda: _answers(ready), process, log.read_text)
        yield process


def _answers(address: str) -> bool:
    with suppress(OSError):
        urllib.request.urlopen(address, timeout=5).close()
        return True
    return False


def holding_all_cpus() -> Any:
    """An actor that has every CPU of the joined cluster, for `ray.kill` to end."""

    class Busy:
        def begin(self) -> None:
            """Return once the actor has its CPUs."""

    busy = ray.remote(num_cpus=ray.cluster_resources()["CPU"])(Busy).remote()
    ray.get(busy.begin.remote())
    return busy
