"""Cores that pretrainings side by side would leave idle."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pipelines.cluster.cluster import Cluster
from pipelines.storage.storage import Storage
from proser_core.config import ClusterConfig


@pytest.fixture(autouse=True)
def torch_takes_eight_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    yield
    torch.set_num_threads(before)


def cores(cluster: Cluster, trainings: int, workers: int = 1) -> int:
    return cluster.with_idle_cores(trainings, workers).config.cpus_per_worker


def of_cores(number: int, folder: Path, config: ClusterConfig | None = None) -> Cluster:
    return Cluster(config or ClusterConfig(), Storage(folder), _nodes=[{"CPU": float(number)}])


@pytest.mark.parametrize(
    ("trainings", "workers", "each"), [(1, 1, 8), (1, 2, 4), (2, 1, 4), (3, 1, 2), (5, 1, 1), (9, 1, 1)]
)
def test_they_are_shared_out_evenly(trainings: int, workers: int, each: int, tmp_path: Path) -> None:
    assert cores(of_cores(8, tmp_path), trainings, workers) == each


def test_they_go_to_those_that_are_trained_at_a_time(tmp_path: Path) -> None:
    assert cores(of_cores(8, tmp_path, ClusterConfig(max_concurrent=2)), 5) == 4


def test_no_worker_has_fewer_than_it_asks_for_or_more_than_torch_takes(tmp_path: Path) -> None:
    assert cores(of_cores(8, tmp_path, ClusterConfig(cpus_per_worker=3)), 4) == 3
    assert cores(of_cores(64, tmp_path), 1) == 8


@pytest.mark.parametrize("config", [ClusterConfig(address="auto"), ClusterConfig(gpus_per_worker=1.0)])
def test_those_of_a_cluster_and_of_a_machine_that_trains_on_its_gpu_stay(config: ClusterConfig, tmp_path: Path) -> None:
    assert cores(of_cores(8, tmp_path, config), 1) == 1


def test_where_times_are_compared_each_has_what_it_asks_for(tmp_path: Path) -> None:
    assert cores(replace(of_cores(8, tmp_path), compares_times=True), 1) == 1
