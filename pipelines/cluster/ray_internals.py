"""What is used of Ray without being documented, all in one place; each was read in Ray 2.60.0.

Where another Ray lacks one of them, its function does without it, or says what is missing and what to do.
"""

import logging
import os
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import ray
from ray.actor import ActorHandle
from ray.util.placement_group import PlacementGroup, remove_placement_group

from proser_core.errors import ClusterError

if TYPE_CHECKING:
    from ray.tune import Callback

AUTH_MODE = "RAY_AUTH_MODE"
JOB_VARIABLE = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Set in what `ray job submit` starts."""
JOB_FOLDER = "runtime_resources"
"""Part of the path where Ray unpacks a job's --working-dir, and deletes it afterwards."""
HEAD_NODE = "node:__internal_head__"
"""The resource of the head node of every cluster."""
UNKNOWN_METHOD = grpc.StatusCode.UNIMPLEMENTED
ABSENT = (ImportError, AttributeError, TypeError)
"""What another Ray raises that has renamed something, or changed its signature."""


def _absent(name: str, advice: str) -> ClusterError:
    return ClusterError(f"Ray {ray.__version__} has no {name} as Ray 2.60.0 has it; {advice}")


def local_cpus() -> float:
    """With how many CPUs Ray starts here: no more than a container's limits. Another Ray may start with fewer."""
    logging.getLogger("ray").setLevel(logging.ERROR)  # as `join` does: it warns of a limit of one and a half
    try:
        from ray._private.utils import get_num_cpus

        return float(get_num_cpus(override_docker_cpu_warning=True))
    except ABSENT:
        return float(os.cpu_count() or 1)


def last_started_cluster() -> str:
    """host:port of the last `ray start` on this machine; empty where there was none, or it is not recorded there."""
    folder = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir())
    try:
        return (folder / "ray" / "ray_current_cluster").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def is_refused(address: str, token: str) -> bool | None:
    """Whether the head node refuses a request with this token, or none; None where it is too busy to answer, or of
    another Ray and does not know the request. Raises ClusterError where what listens there is no head node."""
    metadata = [("authorization", f"Bearer {token}")] if token else None
    with grpc.insecure_channel(address) as channel:
        code = _answer(channel, "NodeInfoGcsService/GetClusterId", metadata)
        is_client = code == UNKNOWN_METHOD and _answer(channel, "RayletDriver/ClusterInfo") != UNKNOWN_METHOD
    is_encrypted = os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")
    if is_client or (code == grpc.StatusCode.UNAVAILABLE and not is_encrypted):
        raise ClusterError(
            f"what listens at {address} is not the head node of a Ray cluster; give the port of `ray start`, 6379 by "
            "default, not the dashboard's (8265) or Ray Client's (10001)"
        )
    return {grpc.StatusCode.OK: False, grpc.StatusCode.UNAUTHENTICATED: True}.get(code)


def _answer(channel: grpc.Channel, method: str, metadata: list[tuple[str, str]] | None = None) -> grpc.StatusCode:
    """What a server of Ray says to an empty request."""
    try:
        channel.unary_unary(f"/ray.rpc.{method}")(b"", timeout=5, metadata=metadata)
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def enable_token() -> None:
    """Send the token from now on, also where Ray has read its settings already, as `ray.init("auto")` does."""
    if os.environ.get(AUTH_MODE, "").lower() == "token":
        return
    try:
        from ray._private.authentication.authentication_token_setup import _enable_token_auth

        _enable_token_auth()
    except ABSENT as error:
        raise _absent("_enable_token_auth", f"set {AUTH_MODE}=token, and run the command again") from error


def release_lost_groups() -> None:
    """Remove this run's placement groups whose creator, a Train controller, has died.

    Ray's own cleaner asks the dashboard whether the creator lives; without a dashboard it asks forever, and the next
    attempt waits for the workers' resources as long.
    """
    try:
        lost = _lost_groups()
    except ABSENT:
        advice = "where a training of several workers waits after one was lost, run the same command again"
        warnings.warn(str(_absent("table of placement groups", advice)), RuntimeWarning, stacklevel=2)
        return
    for group in lost:
        remove_placement_group(group)


def _lost_groups() -> list[PlacementGroup]:
    """The documented table of placement groups does not name their creators."""
    from ray.core.generated.gcs_pb2 import PlacementGroupTableData

    lost, job = [], ray.get_runtime_context().get_job_id()
    for entry in ray._private.state.state._connect_and_get_accessor().get_placement_group_table():
        group = PlacementGroupTableData.FromString(entry)
        removed = group.state == PlacementGroupTableData.REMOVED
        by_driver = ray.ActorID(group.creator_actor_id).is_nil()  # Tune's own; Ray calls no creator a dead one
        if group.creator_actor_dead and not (removed or by_driver) and group.creator_job_id.hex() == job:
            lost.append(PlacementGroup(ray.PlacementGroupID(group.placement_group_id)))
    return lost


def keep_coordinator() -> None:
    """Start Ray Train's coordinator of elastic trainings on the head node, or there again where its machine is lost.

    Ray starts one for a whole cluster, on the machine of the first such training, and never on another one: every
    elastic training waits forever once that machine is lost.
    """
    try:
        from ray.data._internal.cluster_autoscaler.default_autoscaling_coordinator import (
            get_or_create_autoscaling_coordinator,
        )
    except ABSENT:
        advice = "where elastic trainings wait after a machine was lost, restart the cluster"
        warnings.warn(str(_absent("AutoscalingCoordinator", advice)), RuntimeWarning, stacklevel=2)
        return
    on_head = ray.remote(num_cpus=0, resources={HEAD_NODE: 0.001})(_coordinate_here)
    ray.get(on_head.remote(get_or_create_autoscaling_coordinator))


def _coordinate_here(get_or_create: Callable[[], ActorHandle]) -> None:
    coordinator = get_or_create()
    try:
        ray.get(coordinator.__ray_ready__.remote())
    except ray.exceptions.ActorUnschedulableError:
        ray.kill(coordinator)
        ray.get(get_or_create().__ray_ready__.remote())


def machine_is_leaving() -> bool:
    """Whether the machine of this process was announced to go away, as a cloud announces the end of a spot machine.
    False where another Ray does not say so: then its end comes unannounced. False without Ray, too."""
    if not ray.is_initialized():
        return False
    try:
        leaving = ray._private.state.state.get_draining_nodes()
    except ABSENT:
        return False
    return ray.get_runtime_context().get_node_id() in leaving


def silence_raylets() -> None:
    """Keep Ray from printing what raylets report, as lost workers, in paragraphs between our own lines: it does so
    whatever `log_to_driver` is. Another Ray may print it."""
    try:
        from ray._private import worker

        shown = worker.print_to_stdstream
    except ABSENT:
        return

    def show_others(data: dict[str, Any], *arguments: Any, **named: Any) -> None:
        if data.get("pid") != "raylet":
            shown(data, *arguments, **named)

    if shown.__module__ != __name__:
        worker.print_to_stdstream = show_others


def silent_progress() -> "list[Callback]":
    """Callbacks in place of Tune's printer, which at any verbosity prints the end of a trial that reported no epoch.
    Another Ray may print it."""
    try:
        from ray.tune.progress_reporter import TrialProgressCallback
    except ABSENT:
        return []

    class SilentProgress(TrialProgressCallback):
        def _print(self, msg: str) -> None:
            pass

    return [SilentProgress()]


def last_error(trial: Any) -> BaseException | None:
    """The error of a Tune trial that has just failed, None where there is none. From this machine's disk:
    `Trial.get_pickled_error` reads where it is uploaded later."""
    with suppress(*ABSENT, OSError):
        found: BaseException = ray.cloudpickle.loads(Path(trial.pickled_error_file).read_bytes())
        return found
    return None


def serve_http_address() -> tuple[str, int] | None:
    """Host and port on which Ray Serve listens on this cluster; None where it does not run."""
    from ray import serve

    try:
        from ray.serve.context import _get_global_client

        client = _get_global_client(raise_if_no_controller_running=False)
        return None if client is None else (client.http_config.host, client.http_config.port)
    except ABSENT as error:
        if not serve.status().proxies:
            return None
        advice = "Ray Serve runs on the cluster already, and on which port is not known; end it with `serve shutdown`"
        raise _absent("_get_global_client", advice) from error


def delete_application(name: str) -> None:
    """Have Ray Serve delete an application, and do not wait for it. Another Ray may wait, for up to a minute."""
    from ray import serve

    try:
        serve.delete(name, _blocking=False)
    except ABSENT:
        with suppress(TimeoutError):
            serve.delete(name)
