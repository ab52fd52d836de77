"""Which Ray cluster `cluster.address` means, whether it lets this process in, and whether its machines see
the storage. Ray itself tries a wrong token for half a minute, and then says that nothing answers.
"""

import os
import uuid
from pathlib import Path
from typing import Any

from pipelines.ports import check_listens
from pipelines.tracking.server import tracking_uri
from proser_core.errors import ClusterError, first_line

MODE = "RAY_AUTH_MODE"
WITHIN_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set by Ray, under this name, in what `ray job submit` starts
OF_A_JOB = "runtime_resources"  # part of the path where Ray unpacks a job's --working-dir, and clears it away
PATIENCE = 120.0
"""Seconds in which a machine of the cluster must have looked at the storage."""


def locate(address: str) -> str:
    """host:port of the cluster that `address` means; `auto` is RAY_ADDRESS, else the last `ray start` here.

    Ray's own `auto` would also join the private Ray of any other run on this machine. Raises ClusterError
    where there is none.
    """
    if address != "auto":
        return address
    from ray._private.utils import read_ray_address

    named = os.environ.get("RAY_ADDRESS", "")
    found = named if named not in ("", "auto") else read_ray_address()
    if not found:
        raise ClusterError(
            "cluster.address is auto, and no Ray cluster was started on this machine with `ray start`; "
            "start one with `ray start --head`, or give its host:port, here or in RAY_ADDRESS"
        )
    return str(found)


def knock(address: str) -> None:
    """Ask for the cluster's id, with and without a token, to be refused at once.

    Raises OSError where nothing listens, ClusterError where the cluster wants a token and this process has
    none, or a wrong one, and where it wants none and this process would refuse its workers.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):
        return
    check_listens(host, int(port))
    if address.startswith("ray://"):
        return
    import grpc
    from ray._private.authentication.authentication_utils import is_token_auth_enabled

    wants_token = not _lets_in(grpc.insecure_channel(address))
    if wants_token:
        _show_token(address)
    elif is_token_auth_enabled():
        raise ClusterError(
            f"the Ray cluster at {address} wants no token, and here {MODE} is token, so that its workers could not "
            f"answer; start the cluster with {MODE}=token, which keeps strangers out, or unset it here"
        )


def _show_token(address: str) -> None:
    """Send the token that lies here from now on, as Ray's own `auto` does; raises ClusterError where it fails."""
    from ray._private.authentication.authentication_token_setup import _enable_token_auth
    from ray._private.gcs_utils import create_gcs_channel
    from ray._raylet import AuthenticationTokenLoader  # type: ignore[attr-defined]

    reason = ""
    if not AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True):
        reason = "there is no token here"
    elif os.environ.get(MODE, "token").lower() != "token":
        reason = f"{MODE} is {os.environ[MODE]}"
    else:
        _enable_token_auth()
        if not _lets_in(create_gcs_channel(address)):
            reason = "the token here is another one"
    if reason:
        raise ClusterError(
            f"the Ray cluster at {address} refuses this process: {reason}; set {MODE}=token, and put the token "
            "that its machines have into ~/.ray/auth_token or RAY_AUTH_TOKEN"
        )


def _lets_in(channel: Any) -> bool:
    """Whether the head node answers over this channel; only a wrong or missing token is a no."""
    import grpc
    from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

    with channel:
        stub = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
        try:
            stub.GetClusterId(gcs_service_pb2.GetClusterIdRequest(), timeout=5)
        except grpc.RpcError as error:
            return bool(error.code() != grpc.StatusCode.UNAUTHENTICATED)
    return True


def check_job(address: str, storage: Path) -> None:
    """In what `ray job submit` starts: raises ClusterError where it would train on a Ray of its own, or leave
    results in the folder that Ray clears away after it.
    """
    if WITHIN_JOB in os.environ and not address:
        raise ClusterError(
            "cluster.address is empty, and would start another Ray on the machine that this job runs on; "
            "give --cluster.address auto to train on the job's cluster"
        )
    uri = tracking_uri()
    database = Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None
    if OF_A_JOB in storage.parts:
        raise ClusterError(
            f"--storage leads to {storage}, which Ray clears away after the job; give an absolute path that all "
            "machines see"
        )
    if database is not None and OF_A_JOB in database.parts:
        raise ClusterError(
            f"the tracking database would be {database}, which Ray clears away after the job; name a tracking "
            "server in MLFLOW_TRACKING_URI"
        )


def check_shared(storage: Path | str) -> None:
    """Raises ClusterError where a machine of the cluster that was joined lacks this project, or the storage: a
    folder, or a URI."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    mark = f".seen-{uuid.uuid4().hex}"
    _leave(storage, mark)
    look = ray.remote(num_cpus=0, max_retries=0)(_missing)
    nodes = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    looks = [
        look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote(storage, mark)
        for node in nodes
    ]
    try:
        seen = ray.get(looks, timeout=PATIENCE)
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[-1]
        raise ClusterError(
            f"a machine of the cluster cannot run this project ({reason}); install it there, with the same versions"
        ) from error
    finally:
        _remove(storage, mark)
    blind = [f"{address} ({why})" for address, why in zip(nodes.values(), seen, strict=True) if why]
    if blind:
        raise ClusterError(
            f"the storage {storage} is not seen on {', '.join(blind)}; give a --storage that all machines mount "
            "at the same path, or a URI that all have credentials for"
        )


def _leave(storage: Path | str, mark: str) -> None:
    if isinstance(storage, str):
        _behind(storage).write(mark, b"")
    else:
        (storage / mark).touch()


def _remove(storage: Path | str, mark: str) -> None:
    if isinstance(storage, str):
        _behind(storage).delete(mark)
    else:
        (storage / mark).unlink()


def _missing(storage: Path | str, mark: str) -> str:
    """Why a machine does not see a mark; empty where it does."""
    try:
        there = _behind(storage).stamp(mark) if isinstance(storage, str) else (storage / mark).exists()
    except (OSError, ValueError, NotImplementedError) as error:
        return first_line(error)
    return "" if there else "nothing is there"


def _behind(uri: str) -> Any:
    from pipelines.storage.objects import Objects

    return Objects.of(uri)
