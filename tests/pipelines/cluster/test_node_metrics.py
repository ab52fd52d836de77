"""The load of a cluster's other machines, in the run of whoever works on them."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from ray_nodes import head_node, node
from tracking_servers import mlflow_server

from pipelines.cluster.cluster import Cluster
from pipelines.cluster.node_metrics import node_metrics
from pipelines.ports import free_ports
from pipelines.storage.storage import Storage
from proser_core.config import ClusterConfig

WATCH = """
import sys, time
from pathlib import Path
from pipelines.cluster.cluster import Cluster
from pipelines.cluster.node_metrics import node_metrics
from pipelines.storage.storage import Storage
from pipelines.tracking.runs import ParentRun
from proser_core.config import ClusterConfig

run = ParentRun.open("watched", "key", {})
cluster = Cluster(ClusterConfig(address=sys.argv[1]), Storage(Path(sys.argv[2])))
with node_metrics(run, cluster):
    cluster.connect()
    end = time.monotonic() + 120
    found = {}
    while not found and time.monotonic() < end:
        time.sleep(0.5)
        logged = run.client.get_run(run.run_id).data.metrics
        found = {name: value for name, value in logged.items() if name.startswith("system/")}
print(sorted(found))
"""
PROJECT = str(Path(__file__).parents[3])


@pytest.mark.slow
def test_a_machine_that_the_driver_is_not_on_logs_its_load_under_its_address(tmp_path: Path) -> None:
    often = {"MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL": "0.5"}
    with (
        mlflow_server(f"sqlite:///{tmp_path}/mlflow.db", tmp_path, free_ports(1)[0]) as tracking,
        head_node(PYTHONPATH=PROJECT, MLFLOW_TRACKING_URI=tracking, **often) as head,
        node([f"--address={head.address}", "--num-cpus=1"], head.environment, tmp_path / "second.log"),
    ):
        command = [sys.executable, "-c", WATCH, head.address, str(tmp_path / "storage")]
        done = subprocess.run(command, env={**os.environ, **head.environment}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    address = head.address.rpartition(":")[0]
    assert f"system/{address}/cpu_utilization_percentage" in done.stdout, done.stderr


def test_no_machine_of_a_cluster_that_grows_is_kept_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", "true")
    monkeypatch.setattr("pipelines.cluster.node_metrics.poll_in_background", lambda *_: pytest.fail("it is watched"))
    growing = Cluster(ClusterConfig(address="auto"), Storage(tmp_path), grows_to=[{"CPU": 4.0}])
    with node_metrics(SimpleNamespace(status="RUNNING"), growing):
        pass
