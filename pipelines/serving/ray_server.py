"""The application in replicas of Ray Serve, on this machine or on a cluster: start it, deploy it, stop both."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import ray
import torch
from fastapi import FastAPI
from prometheus_client.core import Metric
from ray import serve
from ray.serve.exceptions import RayServeException

from pipelines.cluster.ray_internals import delete_application, serve_http_address
from pipelines.console import warn
from pipelines.serving.application import ByReplica, application
from pipelines.serving.recogniser import Options, Recogniser
from proser_core.errors import ClusterError, last_line

APPLICATION, DEPLOYMENT = "proser", "recogniser"
TARGET_REQUESTS = 16
"""At work in a replica, above which another one is started and below which one is stopped."""
SCRAPE_TIMEOUT_S = 5.0
STOP_MARGIN_S = 30.0  # in which Ray ends the replicas that have not ended in time


@serve.deployment(name=DEPLOYMENT)
@serve.ingress()
class Replica:
    """One of the server's processes that answer requests."""

    def __init__(self, options: Options) -> None:
        os.environ["MLFLOW_TRACKING_URI"] = options.tracking_uri  # workers of a cluster have their own environment
        torch.set_num_threads(1)  # its share, whatever OMP_NUM_THREADS says: batches side by side have one each
        self._recogniser = Recogniser(options, serve.get_replica_context().replica_id.unique_id)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return application(self._recogniser, _everyone)

    def state(self) -> dict[str, str]:
        """Asked by the monitor."""
        return self._recogniser.state()

    def metrics(self) -> tuple[str, Sequence[Metric]]:
        """Asked by the replica that a scrape of /metrics comes to."""
        return self._recogniser.replica, self._recogniser.metrics.collect()

    def check_health(self) -> None:
        """Asked by Ray Serve, which replaces a replica that raises."""
        self._recogniser.check()

    def __del__(self) -> None:
        self._recogniser.close()


async def _everyone() -> ByReplica:
    """The metrics of all replicas that answer."""
    asked = serve.get_deployment_handle(DEPLOYMENT, APPLICATION).broadcast("metrics")
    answers = await asked.results_async(timeout_s=SCRAPE_TIMEOUT_S, return_exceptions=True)
    return dict(answer for answer in answers if not isinstance(answer, Exception))


@contextmanager
def ray_serve(host: str, port: int, address: str, seconds: float) -> Iterator[None]:
    """Ray Serve on this host and port of the cluster that this process joined. In the end requests that have begun are
    answered, for so many seconds, and the application is deleted; on a cluster (`address`) Serve is shut down too if it
    was started here and serves nothing else.

    Raises ClusterError where Serve does not start, or runs already on another port or with a model of ours.
    """
    started_here = _start(host, port, address)
    try:
        yield
    finally:
        limit = seconds + STOP_MARGIN_S
        # in a thread that may be left behind: Ray waits without end for a controller that cannot start any more
        given = (limit, bool(started_here and address))
        ending = threading.Thread(target=_delete_and_shut_down, args=given, name="ending", daemon=True)
        ending.start()
        ending.join(limit + STOP_MARGIN_S)
        if ending.is_alive():
            warn("Ray Serve does not answer, and may be running still; `serve shutdown` ends it")


def _delete_and_shut_down(seconds: float, shuts_down: bool) -> None:
    """Delete the application, wait so long for its replicas' end (Ray's own wait ends after a minute), and shut Serve
    down if it is to be and serves nothing else."""
    with suppress(Exception):  # it is gone already
        delete_application(APPLICATION)
        end = time.monotonic() + seconds
        while application_status() != "NOT_STARTED" and time.monotonic() < end:
            time.sleep(0.1)
    with suppress(Exception):
        if shuts_down and not serve.status().applications:
            serve.shutdown()


def deploy(options: Options, replicas: tuple[int, int]) -> Callable[[float], dict[str, str]]:
    """Start between the least and the most replicas, and wait until they answer. Returns a function that asks one of
    them for its state, within so many seconds. Raises ClusterError where they do not start."""
    deployment = deployment_of(options, replicas)
    with _cluster_errors("the server did not start; its replicas write to Ray's folder of logs"):
        handle = serve.run(deployment.bind(options), name=APPLICATION, route_prefix="/")
    return lambda seconds: handle.state.remote().result(timeout_s=seconds)


def deployment_of(options: Options, replicas: tuple[int, int]) -> serve.Deployment:
    """The deployment of between the least and the most replicas."""
    least, most = replicas
    scaling: dict[str, Any] = {"num_replicas": least}
    if least < most:
        target = min(TARGET_REQUESTS, options.max_waiting)
        scaling = {"autoscaling_config": {"min_replicas": least, "max_replicas": most}}
        scaling["autoscaling_config"] |= {"target_ongoing_requests": target}
    return Replica.options(  # type: ignore[attr-defined]
        **scaling,
        max_ongoing_requests=2 * options.max_waiting,  # so that the application refuses, with its reason, and not Ray
        ray_actor_options={"num_cpus": 1, "num_gpus": 1 if options.device == "cuda" else 0},
        graceful_shutdown_timeout_s=options.longest_request,  # Ray's 20 s would break off slow ones
        logging_config={"enable_access_log": False},
    )


def application_status() -> str:
    """Status as Ray Serve names it; NOT_STARTED where it knows no such application."""
    application = serve.status().applications.get(APPLICATION)
    return "NOT_STARTED" if application is None else str(application.status.value)


def _start(host: str, port: int, address: str) -> bool:
    """Start Ray Serve, or use the one that runs there already; whether it was started here."""
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    with _cluster_errors("Ray Serve did not start"):
        listens = serve_http_address()
        if listens is None:
            try:
                serve.start(http_options={"host": host, "port": port})
            except BaseException:
                serve.shutdown()  # its controller is there before it has the port
                raise
            return True
        applications = serve.status().applications
    if APPLICATION in applications:
        raise ClusterError(
            f"the cluster at {address} serves a model already; stop its `proser serve`, or, if that has "
            "ended, run `serve shutdown`"
        )
    if listens != (host, port):
        raise ClusterError(
            f"Ray Serve listens on {listens[0]}:{listens[1]} of the cluster already, not on {host}:{port}; "
            f"give --host {listens[0]} --port {listens[1]}, or stop it with `serve shutdown`"
        )
    return False


@contextmanager
def _cluster_errors(what: str) -> Iterator[None]:
    """Turn Ray's errors into a ClusterError that begins with `what`."""
    try:
        yield
    except (RuntimeError, TimeoutError, RayServeException, ray.exceptions.RayError) as error:
        raise ClusterError(f"{what} ({last_line(error)})") from error
