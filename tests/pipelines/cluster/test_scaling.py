"""What a cluster can grow to, from the files that launch it."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config

from pipelines.cluster.cluster import Cluster
from pipelines.cluster.scaling import MOST_REPLICAS, largest_cluster
from pipelines.console import console
from pipelines.recipes import cifar100
from pipelines.storage.storage import Storage
from pipelines.workflow.session import open_session
from proser_core.config import ClusterConfig
from proser_core.errors import ClusterError, ConfigError

ROOT = Path(__file__).parents[3]


def test_the_file_of_aws_grows_to_four_machines_with_a_gpu_each() -> None:
    head, *workers = largest_cluster(ROOT / "ray_cluster.yaml", ClusterConfig())
    assert head["CPU"] == 0
    assert workers == [{"CPU": 4.0, "GPU": 1.0}] * 4


def test_the_manifest_of_kubernetes_grows_to_its_largest_groups() -> None:
    nodes = largest_cluster(ROOT / "clusters/kuberay.yaml", ClusterConfig())
    assert sum(node["GPU"] for node in nodes) == 4
    assert len(nodes) == 5


def launched(folder: Path, *types: str) -> Path:
    """A file of `ray up` for three workers, after a head of two CPUs."""
    lines = ("head: {resources: {CPU: 2}, max_workers: 0}", *types)
    text = "max_workers: 3\nhead_node_type: head\navailable_node_types:\n" + "\n".join(f"  {line}" for line in lines)
    (folder / "c.yaml").write_text(text)
    return folder / "c.yaml"


def test_no_more_workers_than_the_whole_cluster_may_have_of_those_on_which_most_fits(tmp_path: Path) -> None:
    path = launched(tmp_path, "small: {resources: {CPU: 4}}", "large: {resources: {CPU: 8}, max_workers: 2}")
    assert [node["CPU"] for node in largest_cluster(path, ClusterConfig())] == [2, 8, 8, 4]


@pytest.mark.parametrize("order", [1, -1])
def test_a_gpu_is_counted_in_whatever_order_the_file_has_the_types(
    order: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = launched(tmp_path, *["cpu: {resources: {CPU: 8}}", "gpu: {resources: {CPU: 8, GPU: 1}}"][::order])
    connected(ClusterConfig(gpus_per_worker=1.0, num_workers=3), path, tmp_path, monkeypatch)
    with pytest.raises(ClusterError, match="needs 4 GPU in all; this machine has 3 on 4 nodes"):
        connected(ClusterConfig(gpus_per_worker=1.0, num_workers=4), path, tmp_path, monkeypatch)


def connected(
    config: ClusterConfig, path: Path | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, float]:
    """Resources of a cluster of two live machines, one with a GPU."""
    live = [{"CPU": 2.0}, {"CPU": 8.0, "GPU": 1.0}]
    monkeypatch.setattr("pipelines.cluster.cluster.join", lambda address, dashboard: None)
    monkeypatch.setattr("pipelines.cluster.cluster._live_nodes", lambda: live)
    return Cluster(config, Storage(folder), grows_to=largest_cluster(path, config)).connect()


def test_more_machines_of_the_heads_type_count_as_workers(tmp_path: Path) -> None:
    text = launched(tmp_path).read_text().replace("max_workers: 0", "max_workers: 2")
    (tmp_path / "c.yaml").write_text(text)
    assert largest_cluster(tmp_path / "c.yaml", ClusterConfig()) == [{"CPU": 2}] * 3


@pytest.mark.parametrize("resources", ["", "resources: {}", "resources: {GPU: 1}"])
def test_a_type_whose_cpus_ray_asks_the_cloud_for_refuses_a_file_that_is_given_and_no_run_that_has_what_it_needs(
    resources: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = launched(tmp_path, f"gpu: {{{resources}}}")
    config = ClusterConfig(gpus_per_worker=1.0)
    with pytest.raises(ConfigError, match=r"what machines of type gpu have; give .*ray_bootstrap_config\.yaml"):
        largest_cluster(path, config)
    path.rename(tmp_path / "ray_bootstrap_config.yaml")
    assert connected(config, None, tmp_path / "storage", monkeypatch)["GPU"] == 1


@pytest.mark.parametrize(
    ("share", "workers", "fits"), [({"CPU": 2.0}, 1, 2), ({"CPU": 1.0}, 2, 3), ({"CPU": 1.0, "GPU": 0.6}, 1, 2)]
)
def test_a_worker_never_spans_two_machines(share: dict[str, float], workers: int, fits: int, tmp_path: Path) -> None:
    config = ClusterConfig(cpus_per_worker=int(share["CPU"]), gpus_per_worker=share.get("GPU", 0.0))
    cluster = Cluster(config, Storage(tmp_path), _nodes=[{"CPU": 3.0, "GPU": 1.0}] * 2)
    assert cluster.concurrent_jobs(workers) == fits


@pytest.mark.parametrize(("share", "fits"), [(0.6, 2), (0.4, 4), (0.1, 20), (1.0, 2)])
def test_a_share_of_a_gpu_never_spans_two(share: float, fits: int, tmp_path: Path) -> None:
    cluster = Cluster(ClusterConfig(gpus_per_worker=share), Storage(tmp_path), _nodes=[{"CPU": 40.0, "GPU": 2.0}])
    assert cluster.concurrent_jobs(1) == fits


def test_a_plan_is_compared_with_the_full_size(tmp_path: Path) -> None:
    """`connect` asks Ray; here its comparison alone, at both sizes."""
    config = replace(cifar100().cluster, num_workers=4)
    cluster = Cluster(config, Storage(tmp_path), grows_to=largest_cluster(ROOT / "ray_cluster.yaml", ClusterConfig()))
    cluster._compare(cluster.grows_to, "the cluster")
    with pytest.raises(ClusterError, match="needs 4 GPU in all; the cluster has 1 on 2"):
        cluster._compare(cluster.grows_to[:2], "the cluster")


def test_cores_of_one_machine_and_the_gpu_of_another_are_no_worker(tmp_path: Path) -> None:
    cluster = Cluster(ClusterConfig(gpus_per_worker=1.0), Storage(tmp_path))
    with pytest.raises(ClusterError, match="needs 1 CPU and 1 GPU on one machine for each worker; it has room for 0"):
        cluster._compare([{"CPU": 8.0}, {"CPU": 0.0, "GPU": 1.0}], "it")


def test_without_a_file_the_cluster_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert largest_cluster(None, ClusterConfig()) == []
    (tmp_path / "ray_bootstrap_config.yaml").write_text((ROOT / "ray_cluster.yaml").read_text())
    assert len(largest_cluster(None, ClusterConfig())) == 5


def manifest(*, limits: str, told: str = "{}") -> str:
    """A RayCluster of a head without resources and two workers."""
    return f"""
    kind: RayCluster
    spec:
      enableInTreeAutoscaling: true
      headGroupSpec: {{template: {{spec: {{containers: [{{name: ray-head}}]}}}}}}
      workerGroupSpecs:
        - replicas: 1
          maxReplicas: 2
          rayStartParams: {told}
          template: {{spec: {{containers: [{{name: ray-worker, resources: {{limits: {limits}}}}}]}}}}
    """


def test_what_kubernetes_writes_where_nobody_gives_a_number_of_replicas_is_no_number_of_machines(
    tmp_path: Path,
) -> None:
    unlimited = manifest(limits="{cpu: 4}").replace("maxReplicas: 2", "maxReplicas: 2147483647")
    (tmp_path / "c.yaml").write_text(unlimited)
    assert len(largest_cluster(tmp_path / "c.yaml", ClusterConfig())) == 1 + MOST_REPLICAS


def test_without_the_autoscaler_a_group_keeps_its_replicas(tmp_path: Path) -> None:
    fixed = manifest(limits="{cpu: 4}").replace("enableInTreeAutoscaling: true", "enableInTreeAutoscaling: false")
    (tmp_path / "c.yaml").write_text(fixed)
    assert largest_cluster(tmp_path / "c.yaml", ClusterConfig()) == [{"CPU": 0, "GPU": 0}, {"CPU": 4, "GPU": 0}]


def test_each_host_of_a_replica_is_a_machine(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(manifest(limits="{cpu: 4}").replace("replicas: 1", "numOfHosts: 3"))
    assert len(largest_cluster(tmp_path / "c.yaml", ClusterConfig())) == 1 + 6


def test_without_a_limit_the_request_counts(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(manifest(limits="{memory: 4Gi}, requests: {cpu: 3500m}"))
    assert largest_cluster(tmp_path / "c.yaml", ClusterConfig())[1] == {"CPU": 4, "GPU": 0}


@pytest.mark.parametrize(
    ("limits", "told", "cpus"),
    [
        ("{cpu: 3500m}", "{}", 4),
        ("{cpu: 4000m}", "{}", 4),
        ('{cpu: "2.5"}', "{}", 3),
        ("{cpu: 3500m}", '{num-cpus: "3"}', 3),
        ("{memory: 4Gi}", "{}", 0),
    ],
)
def test_a_share_of_a_cpu_counts_as_kuberay_tells_ray(limits: str, told: str, cpus: int, tmp_path: Path) -> None:
    """Rounded up, where Ray is not told otherwise."""
    (tmp_path / "c.yaml").write_text(manifest(limits=limits, told=told))
    assert largest_cluster(tmp_path / "c.yaml", ClusterConfig()) == [
        {"CPU": 0, "GPU": 0},
        *[{"CPU": cpus, "GPU": 0}] * 2,
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "has neither available_node_types"),
        (b"kind: Pod\n", "has neither available_node_types"),
        (b"a: [1", "while parsing a flow sequence"),
        (b"a: \xff\xfe\n", "can't decode byte"),
        (b"available_node_types: 3\n", "'int' object has no attribute 'items'"),
        (b"available_node_types: {head: {resources: {CPU: many}}}\n", "could not convert string to float: 'many'"),
        (b"available_node_types: {head: {resources: {CPU: .nan}}}\n", "nan is not a number of 0 or more"),
        (b"kind: RayCluster\nspec: {}\n", "KeyError: 'headGroupSpec'"),
        (manifest(limits="{cpu: 4 cores}").encode(), "could not convert string to float: '4 cores'"),
    ],
)
def test_another_or_a_malformed_file_is_refused_in_one_line(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(content)
    with pytest.raises(ConfigError, match="give the file that launched the cluster") as refused:
        largest_cluster(tmp_path / "c.yaml", ClusterConfig())
    assert reason in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        largest_cluster(tmp_path / "none.yaml", ClusterConfig())


def test_machines_of_ones_own_do_not_grow_in_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by the user's file nor by what `ray up` makes of it on the head node, which has a node type."""
    monkeypatch.chdir(ROOT)
    own = ROOT / "clusters/own_machines.yaml"
    assert largest_cluster(own, ClusterConfig()) == []
    prepared = prepare_config(yaml.safe_load(own.read_text()))
    assert prepared["available_node_types"]
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(prepared))
    assert largest_cluster(tmp_path / "c.yaml", ClusterConfig()) == []


def test_ray_on_this_machine_alone_takes_no_cluster_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even that of `ray up` on a head node: what it promises is not here."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "ray_bootstrap_config.yaml").write_text((ROOT / "ray_cluster.yaml").read_text())
    with open_session(ClusterConfig(), tmp_path / "storage", console(), "a test") as session:
        assert session.cluster.grows_to == []
    with open_session(ClusterConfig(address="auto"), tmp_path / "storage", console(), "a test") as session:
        assert len(session.cluster.grows_to) == 5
    with (
        pytest.raises(ConfigError, match=r"without --cluster\.address Ray starts on this machine alone"),
        open_session(
            ClusterConfig(), tmp_path / "storage", console(), "a test", cluster_file=ROOT / "ray_cluster.yaml"
        ),
    ):
        pass
