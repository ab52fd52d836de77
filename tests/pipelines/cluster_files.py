"""What is wrong with a cluster file, beyond what Ray's own validator says: each check yields problems in words."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
STORAGE = "/mnt/proser"
CARRIED = ("pyproject.toml", "constraints.txt", "README.md", "LICENSE", "proser_core", "tune_spaces", "pipelines")
INSTANCES = {  # vCPUs and GPUs of EC2 instance types
    "m6i.large": (2, 0),
    "m6i.xlarge": (4, 0),
    "m6i.2xlarge": (8, 0),
    "g5.xlarge": (4, 1),
    "g5.2xlarge": (8, 1),
    "g5.12xlarge": (48, 4),
    "g6.xlarge": (4, 1),
    "g6.12xlarge": (48, 4),
    "p4d.24xlarge": (96, 8),
}
PROVIDER_KEYS = {
    "aws": {"type", "region", "availability_zone", "cache_stopped_nodes", "use_internal_ips", "security_group"},
    "local": {"type", "head_ip", "worker_ips"},
}
NODE_KEYS = {
    "InstanceType",
    "ImageId",
    "BlockDeviceMappings",
    "InstanceMarketOptions",
    "KeyName",
    "SubnetIds",
    "SecurityGroupIds",
    "IamInstanceProfile",
}
Config = dict[str, Any]


def pinned(package: str) -> str:
    """The version in constraints.txt."""
    (found,) = re.findall(rf"^{package}==(.*)$", CONSTRAINTS, re.MULTILINE)
    return str(found)


def python_version() -> str:
    """The Python that constraints.txt was resolved on, such as 3.11."""
    (found,) = re.findall(r"Python (\d+\.\d+)", CONSTRAINTS)
    return str(found)


def image() -> str:
    """Ray's own image of the pinned version and Python."""
    return f"rayproject/ray:{pinned('ray')}-py{python_version().replace('.', '')}"


def launcher_problems(config: Config) -> Iterator[str]:
    """Problems of a file for `ray up`."""
    kind = config["provider"]["type"]
    if unknown := config["provider"].keys() - PROVIDER_KEYS[kind]:
        yield f"the provider {kind} does not know {sorted(unknown)}"
    yield from _mounts(config)
    yield from _starts(config)
    yield from _environment(config)
    yield from (_aws(config) if kind == "aws" else _own_machines(config))


def _aws(config: Config) -> Iterator[str]:
    types, head = config["available_node_types"], config["head_node_type"]
    for name, each in types.items():
        node = each["node_config"]
        if unknown := node.keys() - NODE_KEYS:
            yield f"{name} has {sorted(unknown)}, which is no field of an instance"
        if "ImageId" not in node:
            yield f"{name} has no ImageId; Ray would take one with Ubuntu 18.04"
        if node.get("InstanceType") not in INSTANCES:
            yield f"{name} has no InstanceType, or one that is not listed here"
            continue
        cpus, gpus = INSTANCES[node["InstanceType"]]
        asked = (each["resources"].get("CPU"), each["resources"].get("GPU", 0))
        if asked != ((0 if name == head else cpus), gpus):
            yield f"{name} says {asked} CPUs and GPUs; {node['InstanceType']} has {(cpus, gpus)}, and a head gives 0"
        if not 0 <= each.get("min_workers", -1) <= each.get("max_workers", -1) <= config["max_workers"]:
            yield f"{name} must state min_workers <= max_workers <= {config['max_workers']}"
    if types.get(head, {}).get("max_workers") != 0:
        yield "the head's type must have max_workers 0"
    if not any(each["resources"].get("GPU") for name, each in types.items() if name != head):
        yield "no worker has a GPU"
    if "idle_timeout_minutes" not in config:
        yield "no idle_timeout_minutes"
    docker = config.get("docker", {})
    wanted = {"head_image": image(), "worker_image": f"{image()}-gpu"}
    for name in (name for name, value in wanted.items() if docker.get(name) != value):
        yield f"docker.{name} must be {wanted[name]}"
    if f"--volume {STORAGE}:{STORAGE}" not in docker.get("run_options", []):
        yield f"the container does not see {STORAGE}"
    if not any(f"{config['provider']['region']}.amazonaws.com" in line for line in config["initialization_commands"]):
        yield "the file system lies in another region"


def _own_machines(config: Config) -> Iterator[str]:
    workers = len(config["provider"]["worker_ips"])
    if (config.get("min_workers"), config.get("max_workers")) != (workers, workers):
        yield f"min_workers and max_workers must be {workers}, the number of worker_ips"
    if config["provider"]["head_ip"] in config["provider"]["worker_ips"]:
        yield "the head is among the workers"
    if not any(f"python{python_version()} -m venv" in line for line in config["setup_commands"]):
        yield f"the venv must have Python {python_version()}"
    if "ssh_private_key" not in config["auth"]:
        yield "the head has no key to reach the workers with"
    if not any(">> ~/.bashrc" in line and "PATH=" in line for line in config["setup_commands"]):
        yield "`ray down` would find no `ray`"


def _mounts(config: Config) -> Iterator[str]:
    mounts = {Path(there).as_posix(): here for there, here in config["file_mounts"].items()}
    tokens = [there for there, here in mounts.items() if here == "~/.ray/auth_token"]
    if not any(there.endswith("/.ray/auth_token") for there in tokens):
        yield "the token does not reach the machines"
    for here in (here for here in mounts.values() if not here.startswith("~")):
        if not (ROOT / here).exists():
            yield f"there is no {here} to carry"
    for name in CARRIED:
        if name not in mounts.values():
            yield f"{name} is not carried"
    for line in config["setup_commands"]:
        for path in re.findall(r"(?:~|/home/ray)/proser/\S+", line):
            if path not in mounts:
                yield f"a command needs {path}, which is not carried"
    if not any(re.search(r"pip install --constraint \S+ \S+/proser$", line) for line in config["setup_commands"]):
        yield "the project is not installed with its constraints"
    if not any(f"mountpoint -q {STORAGE}" in line for line in config["initialization_commands"]):
        yield f"nothing looks whether {STORAGE} is mounted"


def _starts(config: Config) -> Iterator[str]:
    head, worker = (_start(config, name) for name in ("head", "worker"))
    if "--autoscaling-config=~/ray_bootstrap_config.yaml" not in head:
        yield "the head would start no worker"
    if "--dashboard-host=127.0.0.1" not in head:
        yield "the dashboard must listen on 127.0.0.1; ssh leads to it"
    port = re.search(r"--port=(\d+)", head)
    if port is None or f"--address=$RAY_HEAD_IP:{port[1]}" not in worker:
        yield "the workers look for the head at another port"


def _environment(config: Config) -> Iterator[str]:
    for role in ("head", "worker"):
        options = config.get("docker", {}).get("run_options", [])
        exported = _start(config, role) if not options else " ".join(options)
        for needed in ("RAY_AUTH_MODE=token", "MLFLOW_TRACKING_URI=http"):
            if needed not in exported:
                yield f"{needed} is not in the environment of the {role}"


def _start(config: Config, role: str) -> str:
    return next((line for line in config[f"{role}_start_ray_commands"] if "ray start" in line), "")


def kuberay_problems(claim: Config, cluster: Config) -> Iterator[str]:
    """Problems of the manifest for KubeRay."""
    if (cluster["apiVersion"], cluster["kind"]) != ("ray.io/v1", "RayCluster"):
        yield "not a RayCluster of ray.io/v1"
    spec = cluster["spec"]
    known = {"rayVersion", "enableInTreeAutoscaling", "autoscalerOptions", "headGroupSpec", "workerGroupSpecs"}
    if spec.keys() != known:
        yield f"the cluster's fields must be {sorted(known)}"
    if spec["rayVersion"] != pinned("ray"):
        yield f"rayVersion must be {pinned('ray')}"
    if spec.get("enableInTreeAutoscaling") is not True or "idleTimeoutSeconds" not in spec["autoscalerOptions"]:
        yield "autoscaling is off, or has no idleTimeoutSeconds"
    if claim["spec"]["accessModes"] != ["ReadWriteMany"]:
        yield "the volume must be one that all pods write to"
    groups = {"head": spec["headGroupSpec"], **{group["groupName"]: group for group in spec["workerGroupSpecs"]}}
    if len({group["template"]["spec"]["containers"][0]["image"] for group in groups.values()}) != 1:
        yield "head and workers have different images"
    secrets = [_secret(spec["autoscalerOptions"].get("env", []))]
    for name, group in groups.items():
        yield from _group(name, group, claim["metadata"]["name"])
        secrets.append(_secret(group["template"]["spec"]["containers"][0].get("env", [])))
    if None in secrets or len(set(secrets)) != 1:
        yield "head, workers and autoscaler must all have RAY_AUTH_MODE token and the token of one secret"


def _group(name: str, group: Config, claim: str) -> Iterator[str]:
    pod = group["template"]["spec"]
    container, started = pod["containers"][0], group["rayStartParams"]
    requests, limits = container["resources"]["requests"], container["resources"]["limits"]
    if requests != limits:
        yield f"{name}: requests and limits differ"
    cpus = "0" if name == "head" else requests["cpu"]
    gpus = str(requests.get("nvidia.com/gpu", "0"))
    if (started.get("num-cpus"), started.get("num-gpus")) != (cpus, gpus):
        yield f"{name}: num-cpus must be {cpus} and num-gpus {gpus}, in quotes"
    if name != "head" and not group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]:
        yield f"{name}: replicas must lie between minReplicas and maxReplicas"
    volumes = {each["name"]: each.get("persistentVolumeClaim", {}).get("claimName") for each in pod.get("volumes", [])}
    mounted = {each["mountPath"]: volumes.get(each["name"]) for each in container.get("volumeMounts", [])}
    if mounted.get(STORAGE) != claim:
        yield f"{name}: {STORAGE} is not the claim {claim}"
    if "MLFLOW_TRACKING_URI" not in [each["name"] for each in container.get("env", [])]:
        yield f"{name}: no MLFLOW_TRACKING_URI"


def _secret(env: list[Config]) -> tuple[str, str] | None:
    """Name and key of the token's secret, where token authentication is on."""
    values = {each["name"]: each for each in env}
    reference = values.get("RAY_AUTH_TOKEN", {}).get("valueFrom", {}).get("secretKeyRef", {})
    if values.get("RAY_AUTH_MODE", {}).get("value") != "token" or not reference:
        return None
    return reference["name"], reference["key"]


def image_problems(dockerfile: str) -> Iterator[str]:
    """Problems of the Dockerfile."""
    if f"FROM {image()}-gpu\n" not in dockerfile:
        yield f"must begin from {image()}-gpu"
    copied = [name for line in re.findall(r"^COPY \S+ (.*) \S+$", dockerfile, re.MULTILINE) for name in line.split()]
    for name in {*copied, *CARRIED}:
        if name not in copied or not (ROOT / name).exists():
            yield f"{name} is not there, or not copied"
    if "--constraint /home/ray/proser/constraints.txt" not in dockerfile:
        yield "the constraints are not used"


def read(name: str) -> list[Config]:
    """The documents of a YAML file."""
    return list(yaml.safe_load_all((ROOT / name).read_text()))
