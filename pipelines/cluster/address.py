"""The Ray cluster that `cluster.address` means: whether it admits this process, and whether it sees the storage."""

import os
import uuid
from dataclasses import replace
from pathlib import Path

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pipelines.cluster import ray_internals
from pipelines.cluster.ray_internals import AUTH_MODE, JOB_FOLDER, JOB_VARIABLE
from pipelines.ports import check_listens
from pipelines.storage.objects import Objects, storage_errors
from pipelines.storage.storage import Storage
from pipelines.tracking.server import sqlite_file, tracking_uri
from proser_core.errors import ClusterError, first_line

STORAGE_CHECK_TIMEOUT_S = 120.0
"""Seconds in which a machine of the cluster must have looked at the storage."""


def resolve_address(address: str, option: str = "cluster.address") -> str:
    """host:port of the cluster that `address` means; `auto` is RAY_ADDRESS, else the last `ray start` here.

    Ray's own `auto` would also join the private Ray of any other run on this machine. Raises ClusterError, with what
    gave the address, where there is none, or it is not of this form.
    """
    found, source = address, option
    if address == "auto":
        found, source = _named_in_environment() or ray_internals.last_started_cluster(), auto_source()
    if not found:
        raise ClusterError(
            f"{option} is auto, and no Ray cluster was started on this machine with `ray start`; "
            "start one with `ray start --head`, or give its host:port, here or in RAY_ADDRESS"
        )
    if found.startswith("ray://"):
        raise ClusterError(
            f"{source} is {found}, and through Ray Client no work can be watched; run the command on a machine of the "
            "cluster, or as its job, with the host:port of `ray start`, such as 10.0.0.1:6379"
        )
    host, _, port = found.rpartition(":")
    if not (host and port.isdecimal()) or "/" in host:
        raise ClusterError(f"{source} is {found}; need host:port of `ray start`, such as 10.0.0.1:6379, or auto")
    return found


def auto_source() -> str:
    """Where the address comes from that `auto` means."""
    return "RAY_ADDRESS" if _named_in_environment() else "the last `ray start` on this machine"


def _named_in_environment() -> str:
    named = os.environ.get("RAY_ADDRESS", "")
    return "" if named == "auto" else named


def check_access(address: str) -> None:
    """Ask the head node at host:port whether it wants a token, and enable the token of this machine where it does.

    Ray itself tries a wrong token for 20 seconds and a wrong port for a quarter of an hour. Raises OSError where
    nothing listens, ClusterError where it is no head node, where the cluster wants a token and this process has none
    or a wrong one, and where it wants none and this process would refuse its workers.
    """
    host, _, port = address.rpartition(":")
    check_listens(host, int(port))
    mode = os.environ.get(AUTH_MODE, "")
    refused = ray_internals.is_refused(address, token="")
    if refused is False and mode.lower() == "token":  # Ray Data would wait forever
        raise ClusterError(
            f"the Ray cluster at {address} asks for no token, and {AUTH_MODE} is token here: its workers could not "
            f"answer; start the cluster with {AUTH_MODE}=token, which keeps others out, or unset it here"
        )
    if not refused:
        return
    token = _token()
    if not token:
        reason = "this machine has no token"
    elif mode.lower() not in ("", "token"):
        reason = f"{AUTH_MODE} is {mode}"
    elif ray_internals.is_refused(address, token):
        reason = "this machine has a different token"
    else:
        ray_internals.enable_token()
        return
    raise ClusterError(
        f"the Ray cluster at {address} refuses this process: {reason}; set {AUTH_MODE}=token, and put the token "
        "that its machines have into ~/.ray/auth_token or RAY_AUTH_TOKEN"
    )


def _token() -> str:
    """The token of this machine, from the places that Ray documents; empty where there is none."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return os.environ["RAY_AUTH_TOKEN"].strip()
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or "~/.ray/auth_token").expanduser()
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def check_job(address: str, storage: Path) -> None:
    """Raises ClusterError where a job of `ray job submit` would train on a Ray of its own, or write results to the
    folder that Ray deletes after it."""
    if JOB_VARIABLE in os.environ and not address:
        raise ClusterError(
            "cluster.address is empty, and would start another Ray on the machine that this job runs on; "
            "give --cluster.address auto to train on the job's cluster"
        )
    database = sqlite_file(tracking_uri())
    if JOB_FOLDER in storage.parts:
        raise ClusterError(
            f"--storage leads to {storage}, which Ray deletes after the job; give an absolute path that all "
            "machines see"
        )
    if database is not None and JOB_FOLDER in database.parts:
        raise ClusterError(
            f"the tracking database would be {database}, which Ray deletes after the job; name a tracking "
            "server in MLFLOW_TRACKING_URI"
        )


def check_storage_visible(storage: Storage) -> None:
    """Raises ClusterError where a machine of the cluster that was joined lacks this project, or the storage: a
    folder, or a URI; StorageError where the storage does not answer."""
    uri, marker = storage.uri, f".seen-{uuid.uuid4().hex}"
    objects, check = Objects.from_uri(uri), ray.remote(num_cpus=0, max_retries=0)(_why_invisible)
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    with storage_errors(objects):
        objects.write(marker, b"")
    checks = [
        check.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(uri, marker)
        for node in nodes
    ]
    try:
        answered, _ = ray.wait(checks, num_returns=len(checks), timeout=STORAGE_CHECK_TIMEOUT_S)
        late = f"no answer within {STORAGE_CHECK_TIMEOUT_S:.0f} s"
        reasons = [ray.get(check) if check in answered else late for check in checks]
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ClusterError(
            f"a machine of the cluster cannot run this project ({reason}); install it there, with the same versions"
        ) from error
    finally:
        with storage_errors(objects):
            objects.delete(marker)
    blind = [f"{address} ({why})" for address, why in zip(nodes.values(), reasons, strict=True) if why]
    if blind:
        raise ClusterError(
            f"the storage {storage.title} is not visible on {', '.join(blind)}; give a --storage that all machines "
            "mount at the same path, or a URI that all have credentials for"
        )


def _why_invisible(uri: str, marker: str) -> str:
    """Why a file of the storage is not visible on this machine; empty where it is."""
    try:
        objects = replace(Objects.from_uri(uri), retry_for_s=0.0)  # so that the reason comes in time
        return "" if objects.stamp(marker) else "it has no such files"
    except (OSError, ValueError, NotImplementedError) as error:
        return first_line(error)
