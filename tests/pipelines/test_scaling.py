"""What a cluster can grow to, from the files that launch it."""

from dataclasses import replace
from pathlib import Path

import pytest

from pipelines.cluster import Cluster
from pipelines.recipes import cifar100
from pipelines.scaling import largest_cluster
from proser_core.errors import ClusterError, ConfigError

ROOT = Path(__file__).parents[2]


def test_the_file_of_aws_grows_to_four_machines_with_a_gpu_each() -> None:
    head, *workers = largest_cluster(ROOT / "ray_cluster.yaml")
    assert head["CPU"] == 0
    assert workers == [{"CPU": 4.0, "GPU": 1.0}] * 4


def test_the_manifest_of_kubernetes_grows_to_its_largest_groups() -> None:
    nodes = largest_cluster(ROOT / "clusters/kuberay.yaml")
    assert sum(node["GPU"] for node in nodes) == 4
    assert len(nodes) == 5


def test_no_more_workers_than_the_whole_cluster_may_have(tmp_path: Path) -> None:
    text = """
    max_workers: 3
    head_node_type: head
    available_node_types:
      head: {resources: {CPU: 2}}
      small: {resources: {CPU: 4}, max_workers: 2}
      large: {resources: {CPU: 8}, max_workers: 5}
    """
    (tmp_path / "c.yaml").write_text(text)
    assert [node["CPU"] for node in largest_cluster(tmp_path / "c.yaml")] == [2, 4, 4, 8]


def test_a_plan_is_compared_with_the_full_size(tmp_path: Path) -> None:
    """`connect` asks Ray; here its comparison alone, at both sizes."""
    config = replace(cifar100().cluster, num_workers=4)
    cluster = Cluster(config, tmp_path, grows_to=largest_cluster(ROOT / "ray_cluster.yaml"))
    cluster._compare(cluster.grows_to, "the cluster")
    with pytest.raises(ClusterError, match="needs 4 GPUs; the cluster has 1 on 2"):
        cluster._compare(cluster.grows_to[:2], "the cluster")


def test_without_a_file_the_cluster_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert largest_cluster(None) == []
    (tmp_path / "ray_bootstrap_config.yaml").write_text((ROOT / "ray_cluster.yaml").read_text())
    assert len(largest_cluster(None)) == 5


@pytest.mark.parametrize("text", ["", "- a\n", "kind: Pod\n", "a: [1"])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match="give the file that launched"):
        largest_cluster(tmp_path / "c.yaml")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        largest_cluster(tmp_path / "none.yaml")
