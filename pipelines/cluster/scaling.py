"""The machines that an autoscaling cluster may grow to, from the file that it was launched with."""

import math
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
        nodes = _nodes_in(list(yaml.safe_load_all(path.read_text("utf-8"))))
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(
            f"the cluster file {path} cannot be read ({reason}); give the file that launched the cluster"
        ) from None
    if nodes is None:
        raise ConfigError(
            f"the cluster file {path} has neither available_node_types (Ray's cluster launcher) nor a RayCluster "
            "(KubeRay); give the file that launched the cluster"
        )
    return nodes


def _nodes_in(parts: list[Any]) -> list[Node] | None:
    """None where no part is of a kind that is known. Raises ValueError where one is malformed, as all below do."""
    for part in parts:
        if isinstance(part, dict) and part.get("kind") == "RayCluster":
            return _kuberay_nodes(part)
        if isinstance(part, dict) and "available_node_types" in part:
            return _launcher_nodes(part)
    return None


def _launcher_nodes(config: dict[str, Any]) -> list[Node]:
    head = config.get("head_node_type")
    limit = _count(config, "max_workers", 2)
    nodes, workers = [], 0
    kinds = _mapping(config, "available_node_types")
    for name in kinds:
        kind = _mapping(kinds, name)
        given = _mapping(kind, "resources")
        resources = {key: _number(value, key) for key, value in given.items()}
        if name == head:
            nodes.append(resources)
            continue
        count = min(_count(kind, "max_workers", 0), limit - workers)
        workers += count
        nodes += [resources] * count
    return nodes


def _kuberay_nodes(manifest: dict[str, Any]) -> list[Node]:
    spec = _mapping(manifest, "spec")
    nodes = [_pod_resources(_mapping(spec, "headGroupSpec"))]
    groups = spec.get("workerGroupSpecs") or []
    if not (isinstance(groups, list) and all(isinstance(group, dict) for group in groups)):
        raise ValueError(f"workerGroupSpecs is {groups!r}, and has to be a list of mappings")
    for group in groups:
        nodes += [_pod_resources(group)] * _count(group, "maxReplicas", _count(group, "replicas", 0))
    return nodes


def _pod_resources(group: dict[str, Any]) -> Node:
    """What Ray is told (`rayStartParams`), else what the container may use, which KubeRay rounds up for Ray: with
    3500m of a CPU Ray starts as many workers as with 4."""
    told = _mapping(group, "rayStartParams")
    containers = _mapping(_mapping(group, "template"), "spec").get("containers")
    if not (isinstance(containers, list) and containers and isinstance(containers[0], dict)):
        raise ValueError(f"containers is {containers!r}, and has to be a list of mappings")
    limits = _mapping(_mapping(containers[0], "resources"), "limits")
    names = {"CPU": ("num-cpus", "cpu"), "GPU": ("num-gpus", "nvidia.com/gpu")}
    return {
        kind: _number(told[option], option) if option in told else math.ceil(_quantity(limits.get(limit, 0), limit))
        for kind, (option, limit) in names.items()
    }


def _mapping(parent: dict[Any, Any], name: Any) -> dict[Any, Any]:
    """A part of a file; an empty one where it is left out."""
    part = parent.get(name)
    if part is None:
        return {}
    if not isinstance(part, dict):
        raise ValueError(f"{name} is {part!r}, and has to be a mapping")
    return part


def _count(parent: dict[Any, Any], name: str, default: int) -> int:
    return int(_number(parent.get(name, default), name))


def _quantity(value: Any, name: str) -> float:
    """As Kubernetes writes it: 3500m are 3500 thousandths."""
    text = str(value)
    return _number(text.removesuffix("m"), name) / 1000 if text.endswith("m") else _number(value, name)


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{name} is {value!r}, and has to be a number of 0 or more")
    return number
