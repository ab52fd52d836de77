"""A cluster whose CPUs other work holds: measuring a step waits for them, and says so."""

import os
import threading
from pathlib import Path

import pytest
import ray
from ray_nodes import holding_all_cpus

from pipelines.cluster import cluster
from pipelines.cluster.cluster import Cluster
from pipelines.cluster.session import join
from pipelines.storage.storage import Storage
from proser_core.config import ClusterConfig


@pytest.mark.slow
def test_what_a_worker_waits_for_is_said_while_others_hold_the_cluster(
    own_ray: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    join("")
    address, cpus = ray.get_runtime_context().gcs_address, ray.cluster_resources()["CPU"]
    joined = Cluster(ClusterConfig(address=address), Storage(tmp_path))
    said, is_said = list[str](), threading.Event()

    def warn(text: str) -> None:
        said.append(text)
        is_said.set()

    monkeypatch.setattr(cluster, "warn", warn)
    assert joined.call_on_workers(os.path.basename, ("a/b",), copies=1) == ["b"]
    assert not said, "the cluster was free"
    monkeypatch.setattr(cluster, "WAIT_SAID_S", 0.5)
    busy = holding_all_cpus()
    free_again = threading.Thread(target=lambda: (is_said.wait(), ray.kill(busy)), daemon=True)
    free_again.start()
    assert joined.call_on_workers(os.path.basename, ("a/b",), copies=1) == ["b"]
    assert said == [f"waiting for 1 free CPU of the cluster at {address} (0 of {cpus:g} are free now)"]
