"""How many workers fit on machines, and the machines that an autoscaling cluster may grow to, from the file that it was
launched with."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from proser_core.config import ClusterConfig
from proser_core.errors import ConfigError

BOOTSTRAP = Path("~/ray_bootstrap_config.yaml")
"""Where `ray up` writes its file on the head node."""
MALFORMED = (OSError, ValueError, TypeError, AttributeError, LookupError, yaml.YAMLError)
MOST_REPLICAS = 1000
"""Machines of a group that are counted: Kubernetes itself writes 2147483647 where nobody gives a number."""
Node = dict[str, float]


def worker_resources(config: ClusterConfig) -> Node:
    """What one worker takes, by Ray's names."""
    gpus = {"GPU": config.gpus_per_worker} if config.uses_gpu else {}
    return {"CPU": float(config.cpus_per_worker), **gpus}


def count_shares(nodes: Sequence[Mapping[str, float]], kind: str, each: float) -> int:
    """How many shares of a resource fit on the machines, each on one, and of less than a GPU on one GPU; 0.1 fits ten
    times into 1.0."""
    if kind == "GPU" and each < 1:
        return sum(math.floor(node.get(kind, 0.0)) * math.floor(1 / each + 1e-9) for node in nodes)
    return sum(math.floor(node.get(kind, 0.0) / each + 1e-9) for node in nodes)


def count_workers(nodes: Sequence[Mapping[str, float]], config: ClusterConfig) -> int:
    """How many workers fit on the machines: a worker never spans two."""
    shares = worker_resources(config).items()
    return sum(min(count_shares([node], kind, each) for kind, each in shares) for node in nodes)


def largest_cluster(path: Path | None, config: ClusterConfig) -> list[Node]:
    """Resources of every machine at full size, by Ray's names; empty where no file is given or found. Where there may
    be more machines of each type than of all, they are those on which most workers fit.

    Reads the files of Ray's cluster launcher and KubeRay's RayCluster. Raises ConfigError for another file, or one
    without the fields that are read here; all others are for Ray and Kubernetes to check. A file that was not given,
    but found, may leave open what a machine has: it counts as one that has nothing.
    """
    given, path = path, path or BOOTSTRAP.expanduser()
    if given is None and not path.is_file():
        return []
    try:
        for part in yaml.safe_load_all(path.read_text("utf-8")):
            if isinstance(part, dict) and part.get("kind") == "RayCluster":
                return _kuberay_nodes(part["spec"])
            if isinstance(part, dict) and "worker_ips" in part.get("provider", {}):
                return []  # one's own machines, which do not grow in number; Ray adds a node type without resources
            if isinstance(part, dict) and "available_node_types" in part:
                return _launcher_nodes(part, config, given)
    except MALFORMED as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise ConfigError(
            f"the cluster file {path} cannot be read ({reason}); give the file that launched the cluster"
        ) from None
    raise ConfigError(
        f"the cluster file {path} has neither available_node_types (Ray's cluster launcher) nor a RayCluster "
        "(KubeRay); give the file that launched the cluster"
    )


def _launcher_nodes(launched: dict[str, Any], config: ClusterConfig, given: Path | None) -> list[Node]:
    limit = int(_number(launched.get("max_workers", 2)))
    head: list[Node] = []
    workers: list[Node] = []
    unknown = []
    for name, node_type in launched["available_node_types"].items():
        node = {kind: _number(value) for kind, value in (node_type.get("resources") or {}).items()}
        is_head = name == launched.get("head_node_type")
        most = min(int(_number(node_type.get("max_workers", 0 if is_head else limit))), limit)
        head += [node] * is_head
        workers += [node] * most
        if most and "CPU" not in node:  # `ray up` asks the cloud, as AWS, where the file does not say
            unknown.append(name)
    if unknown and given:
        raise ConfigError(
            f"the cluster file {given} does not say what machines of type {', '.join(unknown)} have; give "
            f"{BOOTSTRAP} of the head node, which `ray up` completes on AWS and GCP, or add CPU to their `resources`"
        )
    workers.sort(key=lambda node: count_workers([node], config), reverse=True)
    return head + workers[:limit]


def _kuberay_nodes(spec: dict[str, Any]) -> list[Node]:
    most = "maxReplicas" if spec.get("enableInTreeAutoscaling") else "replicas"
    nodes = [_pod_resources(spec["headGroupSpec"])]
    for group in spec.get("workerGroupSpecs") or []:
        replicas = min(_number(group.get(most, group.get("replicas", 0))), MOST_REPLICAS)
        nodes += [_pod_resources(group)] * int(replicas * _number(group.get("numOfHosts", 1)))
    return nodes


def _pod_resources(group: dict[str, Any]) -> Node:
    """What Ray is started with (`rayStartParams`), else the container's limits or, without one, its requests, which
    KubeRay rounds up for Ray: with 3500m of a CPU Ray starts as many workers as with 4."""
    started = group.get("rayStartParams") or {}
    asked = group["template"]["spec"]["containers"][0].get("resources") or {}
    limits = (asked.get("requests") or {}) | (asked.get("limits") or {})
    names = {"CPU": ("num-cpus", "cpu"), "GPU": ("num-gpus", "nvidia.com/gpu")}
    return {
        kind: _number(started[option]) if option in started else math.ceil(_quantity(limits.get(limit, 0)))
        for kind, (option, limit) in names.items()
    }


def _quantity(value: Any) -> float:
    """A quantity as Kubernetes writes it: 3500m are 3500 thousandths."""
    text = str(value)
    return _number(text.removesuffix("m")) / 1000 if text.endswith("m") else _number(text)


def _number(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{value!r} is not a number of 0 or more")
    return number
