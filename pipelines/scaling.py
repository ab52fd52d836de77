"""The machines that an autoscaling cluster may grow to, from the file that it was launched with."""

from pathlib import Path
from typing import Any

import yaml

from proser_core.errors import ConfigError

BOOTSTRAP = Path("~/ray_bootstrap_config.yaml")
"""Where `ray up` leaves its file on the head node."""
Node = dict[str, float]


def largest_cluster(path: Path | None) -> list[Node]:
    """Resources of every machine at full size, by Ray's names; empty where no file is given or found.

    Reads the files of Ray's cluster launcher and KubeRay's RayCluster. Raises ConfigError for another file.
    """
    if path is None:
        path = BOOTSTRAP.expanduser()
        if not path.is_file():
            return []
    try:
        parts = list(yaml.safe_load_all(path.read_text()))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"the cluster file {path} cannot be read ({error}); give the file that launched it") from None
    for part in parts:
        if isinstance(part, dict) and part.get("kind") == "RayCluster":
            return _kuberay_nodes(part)
        if isinstance(part, dict) and "available_node_types" in part:
            return _launcher_nodes(part)
    raise ConfigError(
        f"the cluster file {path} has neither available_node_types (Ray's cluster launcher) nor a RayCluster "
        "(KubeRay); give the file that launched the cluster"
    )


def _launcher_nodes(config: dict[str, Any]) -> list[Node]:
    head = config.get("head_node_type")
    limit = int(config.get("max_workers", 2))
    nodes, workers = [], 0
    for name, kind in config["available_node_types"].items():
        resources = {key: float(value) for key, value in (kind.get("resources") or {}).items()}
        if name == head:
            nodes.append(resources)
            continue
        count = min(int(kind.get("max_workers", 0)), limit - workers)
        workers += count
        nodes += [resources] * count
    return nodes


def _kuberay_nodes(manifest: dict[str, Any]) -> list[Node]:
    spec = manifest["spec"]
    nodes = [_pod_resources(spec["headGroupSpec"])]
    for group in spec.get("workerGroupSpecs", []):
        nodes += [_pod_resources(group)] * int(group.get("maxReplicas", group.get("replicas", 0)))
    return nodes


def _pod_resources(group: dict[str, Any]) -> Node:
    """What Ray is told (`rayStartParams`), else what the container may use."""
    told = group.get("rayStartParams") or {}
    limits = group["template"]["spec"]["containers"][0].get("resources", {}).get("limits", {})
    found = {
        "CPU": told.get("num-cpus", limits.get("cpu", 0)),
        "GPU": told.get("num-gpus", limits.get("nvidia.com/gpu", 0)),
    }
    return {name: float(value) for name, value in found.items()}
