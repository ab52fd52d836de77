"""The Ray of this process: started on this machine, or a cluster that it joins."""

import logging
import os
import signal
import sys
import tempfile
import threading
from typing import Any

import ray

from pipelines.cluster.address import auto_source, check_access, resolve_address
from pipelines.cluster.ray_internals import silence_raylets
from pipelines.console import utf8_text
from proser_core.errors import ClusterError, ProserError, first_line
from proser_core.exit_codes import NOT_ALLOWED, Terminated

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_LOG_LEVEL": "CRITICAL",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
DRIVER_RESOURCE = "trial_driver"  # of the light process that waits for the DDP workers of a trial


def join(address: str, *, dashboard: bool = False, option: str = "cluster.address") -> None:
    """Connect to the cluster at `address`, or start Ray on this machine where that is empty. Raises ClusterError where
    no cluster answers, or it does not admit this process; `option` names the address in the message. Raises Terminated
    where SIGTERM ends it."""
    os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    silence_raylets()
    on_sigterm, found = signal.getsignal(signal.SIGTERM), ""
    try:
        if address:
            found = resolve_address(address, option)
            check_access(found)
            ray.init(found, ignore_reinit_error=True, **options)
        elif not ray.is_initialized():
            ray.init(
                "local",
                _temp_dir=_temporary_folder(),
                include_dashboard=dashboard,
                dashboard_host="127.0.0.1",
                resources={DRIVER_RESOURCE: 1000},
                **options,
            )
    except ProserError:
        raise
    except SystemExit as error:  # Ray's own handlers of SIGTERM exit
        raise Terminated from error
    except Exception as error:  # Ray raises Exception itself where a node does not start in time
        if not address:
            raise ClusterError(f"Ray did not start on this machine ({first_line(error)}); {_remedy(error)}") from error
        source = f", from {auto_source()}" if address == "auto" else ""
        raise ClusterError(
            f"no Ray cluster answers at {found}{source} ({first_line(error)}); start one with `ray start --head`, "
            f"or leave {option} empty to start Ray on this machine"
        ) from error
    finally:
        if callable(on_sigterm) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_sigterm)  # Ray's own exits without a message
    for name in ("ray.tune", "ray.train", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _temporary_folder() -> str | None:
    """Where Ray keeps its files, None for its own choice: it would take a TMPDIR that is empty, or make one itself."""
    if os.environ.get("RAY_TMPDIR") or os.access(os.environ.get("TMPDIR", "/tmp"), os.W_OK):
        return None
    return os.path.join(tempfile.gettempdir(), "ray")


def _remedy(error: Exception) -> str:
    """What to do about a Ray that did not start: it writes into the home folder, and has sockets in RAY_TMPDIR."""
    if isinstance(error, UnicodeError) and any(utf8_text(word) != word for word in sys.argv):  # which Ray keeps
        return "give a link with another name for what is not UTF-8 in the command"
    if isinstance(error, UnicodeError) or "AF_UNIX path length" in str(error):
        return "set RAY_TMPDIR to a folder with a short path in ASCII, such as /tmp"
    if isinstance(error, OSError) and error.errno in NOT_ALLOWED:
        return "set HOME and RAY_TMPDIR to folders that can be written"
    return "run the same command again, on a machine that is less busy"


def free_places(device: str) -> int:
    """How many processes with one CPU each, and one GPU where `device` is cuda, would start on the cluster now."""
    free = ray.available_resources()
    return int(min(free.get(kind, 0.0) for kind in _kinds(device)))


def check_room(option: str, count: int, device: str, address: str) -> None:
    """Raises ClusterError where so many processes, whose number an option gives, would wait for a CPU or GPU forever;
    an empty `address` is this machine."""
    for kind in _kinds(device):
        has, free = (found.get(kind, 0.0) for found in (ray.cluster_resources(), ray.available_resources()))
        if free < count:
            where = f"the cluster at {address}" if address else "this machine"
            raise ClusterError(
                f"{option} {count} need one {kind} each; {where} has {has:g}, {free:g} of them free. Give fewer "
                f"{option.removeprefix('--')}, or wait for what runs there"
            )


def _kinds(device: str) -> tuple[str, ...]:
    return ("CPU", "GPU") if device == "cuda" else ("CPU",)
