"""System metrics of a cluster's other machines, as system/ADDRESS/..., beside those of the driver's own."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from pipelines.cluster.cluster import Cluster
from pipelines.progress import poll_in_background
from pipelines.tracking.runs import ParentRun
from pipelines.tracking.server import tracking_uri
from pipelines.tracking.system_metrics import Monitor, are_wanted

PATIENCE_S = 10.0  # for the last values of a machine
UNREACHABLE = (ray.exceptions.RayError, ConnectionError)


@contextmanager
def node_metrics(run: ParentRun, cluster: Cluster) -> Iterator[None]:
    """Log them while the run is running, once a cluster is joined; only to a tracking server, which all machines
    reach, and not of a cluster that grows: Ray ends no machine on which an actor lives. What fails stops nothing, and
    is not said: the training meets a cluster that is away itself."""
    if cluster.grows_to or not tracking_uri().startswith("http"):
        yield
        return
    monitors: dict[str, Any] = {}
    try:
        with poll_in_background(partial(_monitor_new, monitors, run), lambda error: None):
            yield
    finally:
        with suppress(*UNREACHABLE):
            last = [monitor.finish.remote() for monitor in monitors.values()]
            if last:
                ray.wait(last, num_returns=len(last), timeout=PATIENCE_S)
            for monitor in monitors.values():
                ray.kill(monitor)


def _monitor_new(monitors: dict[str, Any], run: ParentRun) -> None:
    """An actor, which takes no share of a CPU, on each machine that has none yet."""
    if not (run.status == "RUNNING" and ray.is_initialized() and are_wanted()):
        return
    here = ray.get_runtime_context().get_node_id()
    for node in ray.nodes():
        name = node["NodeID"]
        if node["Alive"] and name != here and name not in monitors:
            there = NodeAffinitySchedulingStrategy(name, soft=False)
            actor = ray.remote(num_cpus=0)(Monitor).options(scheduling_strategy=there)
            monitors[name] = actor.remote(run.run_id, tracking_uri(), node["NodeManagerAddress"])
