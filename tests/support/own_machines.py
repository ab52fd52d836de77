"""Machines that share one computer: each has an address, a home and an ssh server of its own (Linux namespaces)."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from waiting import until

BRIDGE, NETWORK = "proser0", "10.231.77"
TOOLS = ("ip", "sshd", "ssh", "ssh-keygen", "rsync", "unshare")
SHARED = Path("/mnt/proser")
SSHD = """
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
SetEnv PATH={path} RAY_TMPDIR={home}/ray
"""


@dataclass(frozen=True)
class Machine:
    """One that ssh reaches as root, with the key in `folder`; its home is `home` on this computer."""

    address: str
    folder: Path
    home: Path


def cannot_be() -> str:
    """Why this computer can pretend to be several; empty where it can."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        return f"no {missing[0]} here"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        run("ip", "netns", "add", BRIDGE)
    except subprocess.CalledProcessError:
        return "this computer gives no network namespace"
    run("ip", "netns", "del", BRIDGE)
    return ""


@contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """So many, on a network of their own, with one shared folder at SHARED; nothing of them stays."""
    with tempfile.TemporaryDirectory() as folder:  # of a short name, for Ray's sockets
        yield from _machines(count, Path(folder))


def _machines(count: int, folder: Path) -> Iterator[list[Machine]]:
    for name in ("key", "host_key"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name))
    (folder / "shared").mkdir()
    Path("/run/sshd").mkdir(exist_ok=True)
    with ExitStack() as stack:
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        stack.callback(run, "ip", "link", "del", BRIDGE)
        run("ip", "address", "add", f"{NETWORK}.1/24", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")
        yield [stack.enter_context(_machine(number, folder)) for number in range(count)]


@contextmanager
def _machine(number: int, folder: Path) -> Iterator[Machine]:
    name, address, home = f"{BRIDGE}m{number}", f"{NETWORK}.{number + 10}", folder / f"home{number}"
    outside = f"{BRIDGE}p{number}"
    (home / "ray").mkdir(parents=True)
    config = home / "sshd_config"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    config.write_text(SSHD.format(address=address, folder=folder, path=path, home=home))
    users = home / "passwd"  # where ssh looks for the home of root
    users.write_text(
        re.sub(r"^(root:.*:)[^:]*(:[^:]*)$", rf"\g<1>{home}\2", Path("/etc/passwd").read_text(), flags=re.M)
    )
    run("ip", "netns", "add", name)
    try:
        run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", outside, "master", BRIDGE, "up")
        up = ("link set lo up", "link set eth0 up", f"route add default via {NETWORK}.1")  # by it Ray finds its address
        for command in (f"address add {address}/24 dev eth0", *up):
            run("ip", "-n", name, *command.split())
        mounts = f"mkdir -p {SHARED}; mount --bind {folder / 'shared'} {SHARED}; mount --bind {users} /etc/passwd; "
        # of processes too: `ray stop` ends all that it sees
        inside = [
            "unshare",
            "--mount",
            "--pid",
            "--fork",
            "--mount-proc",
            "--kill-child",
            "sh",
            "-c",
            f"{mounts}exec $(command -v sshd) -D -e -f {config}",
        ]
        with (home / "sshd.log").open("w") as log:
            server = subprocess.Popen(["ip", "netns", "exec", name, *inside], stdout=log, stderr=log)
        machine = Machine(address, folder, home)
        until(lambda: _answers(machine), server, (home / "sshd.log").read_text)
        yield machine
    finally:
        for process in run("ip", "netns", "pids", name).split():
            subprocess.run(["kill", "-9", process], check=False)
        subprocess.run(["ip", "link", "del", outside], check=False)
        run("ip", "netns", "del", name)


def ssh(machine: Machine, command: str) -> str:
    """What a command prints there. Raises CalledProcessError."""
    options = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
    return run("ssh", *options, "-i", str(machine.folder / "key"), f"root@{machine.address}", command)


def _answers(machine: Machine) -> bool:
    with suppress(subprocess.CalledProcessError):
        ssh(machine, "true")
        return True
    return False


def run(*command: str) -> str:
    """What a command prints. Raises CalledProcessError."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
