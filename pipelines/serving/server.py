"""Ray Serve on this machine or on a cluster: start it, deploy the application, stop both."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import ray
from ray import serve
from ray.serve.exceptions import RayServeException

from pipelines.cluster.ray_internals import serve_http_address
from pipelines.serving.application import Recogniser, ReplicaOptions
from proser_core.errors import ClusterError, last_line

APPLICATION = "proser"


@contextmanager
def ray_serve(host: str, port: int, address: str) -> Iterator[None]:
    """Ray Serve on this host and port of the cluster that this process joined. In the end requests that have begun are
    answered, and the application is deleted; on a cluster (`address`) Serve is shut down too if it was started here and
    serves nothing else.

    Raises ClusterError where Serve does not start, or runs already on another port or with a model of ours.
    """
    started_here = _start(host, port, address)
    try:
        yield
    finally:
        with suppress(Exception):  # it is gone already
            serve.delete(APPLICATION)
        with suppress(Exception):
            if started_here and address and not serve.status().applications:
                serve.shutdown()


def check_room(replicas: int, device: str, address: str) -> None:
    """Raises ClusterError where replicas would wait for a CPU or GPU forever."""
    for kind in ("CPU", "GPU") if device == "cuda" else ("CPU",):
        has, free = (found.get(kind, 0.0) for found in (ray.cluster_resources(), ray.available_resources()))
        if free < replicas:
            where = f"the cluster at {address}" if address else "this machine"
            raise ClusterError(
                f"--replicas {replicas} need one {kind} each; {where} has {has:g}, {free:g} of them free. Give fewer "
                "replicas, or wait for what runs there"
            )


def deploy(options: ReplicaOptions, replicas: int, max_waiting: int) -> Any:
    """A handle of the application, once it answers. Raises ClusterError where it does not start."""
    deployment = Recogniser.options(  # type: ignore[attr-defined]
        num_replicas=replicas,
        max_ongoing_requests=max_waiting,
        max_queued_requests=max_waiting,
        ray_actor_options={"num_cpus": 1, "num_gpus": 1 if options.device == "cuda" else 0},
        logging_config={"enable_access_log": False},
    )
    with _cluster_errors("the server did not start; its replicas write to Ray's folder of logs"):
        return serve.run(deployment.bind(options), name=APPLICATION, route_prefix="/")


def application_status() -> str:
    """As Ray Serve names it; NOT_STARTED where it knows no such application."""
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
