"""What is used of Ray without being documented: what is done where another Ray has it no more."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import grpc
import pytest
import ray
from ray import serve
from ray_nodes import head_node, node
from waiting import PATIENCE_S

from pipelines.cluster.address import check_access
from pipelines.cluster.cluster import Cluster
from pipelines.cluster.ray_internals import (
    delete_application,
    enable_token,
    keep_coordinator,
    local_cpus,
    release_lost_groups,
    serve_http_address,
    silence_raylets,
)
from pipelines.cluster.session import join
from pipelines.ports import free_ports
from pipelines.storage.storage import Storage
from proser_core.config import ClusterConfig
from proser_core.errors import ClusterError

COORDINATOR = "ray.data._internal.cluster_autoscaler.default_autoscaling_coordinator"
FIND = f"""
import ray, sys
from {COORDINATOR} import get_or_create_autoscaling_coordinator as find
ray.init(sys.argv[1])

def ask():
    ray.get(find().__ray_ready__.remote(), timeout={PATIENCE_S})
    print("ready", flush=True)

"""
PROJECT = str(Path(__file__).parents[3])


@contextmanager
def head_without_token(method: str, service: str = "NodeInfoGcsService") -> Iterator[str]:
    """The address of a server that answers one method, of Ray's head node unless said, to whoever asks."""
    server = grpc.server(ThreadPoolExecutor(1))
    answers = {method: grpc.unary_unary_rpc_method_handler(lambda request, context: b"")}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"ray.rpc.{service}", answers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


def test_a_process_with_a_token_does_not_join_a_cluster_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with head_without_token("GetClusterId") as address, pytest.raises(ClusterError, match="asks for no token"):
        check_access(address)


def test_a_head_node_that_does_not_know_the_request_is_left_to_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    with head_without_token("GetClusterIdentity") as address:
        check_access(address)


def test_the_port_of_ray_client_is_no_head_node() -> None:
    words = r"what listens at .* is not the head node .*; give the port of"
    with head_without_token("ClusterInfo", "RayletDriver") as address, pytest.raises(ClusterError, match=words):
        check_access(address)


def test_the_port_of_a_web_server_is_no_head_node_unless_that_may_be_encrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        address = f"127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        with pytest.raises(ClusterError, match=r"is not the head node of a Ray cluster; give the port of `ray start`"):
            check_access(address)
        monkeypatch.setenv("RAY_USE_TLS", "1")
        check_access(address)
        server.shutdown()


def test_a_token_that_cannot_be_enabled_later_is_asked_for_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.delattr("ray._private.authentication.authentication_token_setup._enable_token_auth")
    with pytest.raises(ClusterError, match=rf"Ray {ray.__version__} has no _enable_token_auth .*; set RAY_AUTH_MODE="):
        enable_token()


def test_more_workers_than_the_cores_of_a_containers_quota_are_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quota, cluster = tmp_path / "cpu.max", Cluster(ClusterConfig(num_workers=2), Storage(tmp_path))
    quota.write_text("150000 100000")
    nowhere = dict.fromkeys(("cpu_quota_file_name", "cpu_period_file_name", "cpuset_file_name"), "")
    utils = ray._private.utils
    read = partial(utils._get_docker_cpus, cpu_max_file_name=str(quota), **nowhere)
    monkeypatch.setattr(utils, "_get_docker_cpus", read)
    with pytest.raises(ClusterError, match="num_workers 2 with 1 CPU each needs 2 CPU in all; this machine has 1 on"):
        cluster.check()
    monkeypatch.delattr(utils, "get_num_cpus")
    assert local_cpus() == os.cpu_count()


def test_groups_of_lost_trainings_that_are_not_found_are_named_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("ray.core.generated.gcs_pb2.PlacementGroupTableData")
    with pytest.warns(RuntimeWarning, match="has no table of placement groups .*; where a training of several workers"):
        release_lost_groups()


def test_a_coordinator_that_is_not_found_is_named_and_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(f"{COORDINATOR}.get_or_create_autoscaling_coordinator")
    with pytest.warns(RuntimeWarning, match=r"has no AutoscalingCoordinator .*; where elastic trainings wait"):
        keep_coordinator()


def test_what_raylets_report_is_not_printed_and_other_processes_are(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, printed = ray._private.worker, list[object]()
    monkeypatch.setattr(worker, "print_to_stdstream", lambda data, ignore_prefix: printed.append(data["pid"]))
    for _ in range(2):
        silence_raylets()
    for pid in ("raylet", "autoscaler", 7):
        worker.print_to_stdstream({"lines": ["a line"], "pid": pid, "is_err": False}, ignore_prefix=False)
    assert printed == ["autoscaler", 7]
    monkeypatch.delattr(worker, "print_to_stdstream")
    silence_raylets()
    assert not hasattr(worker, "print_to_stdstream")


def test_an_application_is_deleted_where_ray_always_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[str] = []
    monkeypatch.setattr(serve, "delete", lambda name: deleted.append(name))
    delete_application("proser")
    assert deleted == ["proser"]


@pytest.mark.slow
def test_a_coordinator_whose_machine_is_lost_starts_again(tmp_path: Path) -> None:
    with head_node(PYTHONPATH=PROJECT) as head:

        def run(script: str) -> str:
            arguments = [sys.executable, "-c", f"{FIND}{script}", head.address]
            done = subprocess.run(arguments, env=head.environment, cwd=head.folder, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return done.stdout

        leaving = [f"--address={head.address}", "--num-cpus=0", '--resources={"leaving": 1}']
        with node(leaving, head.environment, tmp_path / "log"):
            assert "ready" in run(
                "there = ray.remote(num_cpus=0, resources={'leaving': 1})(ask); ray.get(there.remote())"
            )
        assert "ready" in run("from pipelines.cluster.ray_internals import keep_coordinator; keep_coordinator(); ask()")


@pytest.mark.slow
def test_where_ray_serve_listens_is_known_or_asked_for(own_ray: None, monkeypatch: pytest.MonkeyPatch) -> None:
    join("")
    (port,) = free_ports(1)
    assert serve_http_address() is None
    monkeypatch.setattr("ray.serve.context._get_global_client", lambda: None)  # another signature
    assert serve_http_address() is None
    monkeypatch.undo()
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    try:
        assert serve_http_address() == ("127.0.0.1", port)
        monkeypatch.delattr("ray.serve.context._get_global_client")
        with pytest.raises(ClusterError, match=r"has no _get_global_client .*; end it with `serve shutdown`"):
            serve_http_address()
    finally:
        monkeypatch.undo()
        serve.shutdown()
