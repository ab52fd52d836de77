"""The files that launch a cluster, checked offline: by Ray's own validator, and by checks for what it misses.

Each check is shown a copy of the real file in which one thing is wrong.
"""

import copy
import re
import subprocess
from collections.abc import Callable
from typing import Any

import cluster_files
import pytest
import yaml
from cluster_files import ROOT, STORAGE, image_problems, kuberay_problems, launcher_problems, read
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
from ray.autoscaler._private.util import prepare_config, validate_config

AWS, OWN, KUBERAY, IMAGE = (
    "ray_cluster.yaml",
    "clusters/own_machines.yaml",
    "clusters/kuberay.yaml",
    "clusters/Dockerfile",
)
Config = dict[str, Any]
Change = Callable[[Config], object]
REMOVED = object()


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # from where `ray up` is typed


def put(value: object, *path: str | int) -> Change:
    """A change that sets, or removes, the value at this path."""

    def change(config: Any) -> None:
        for step in path[:-1]:
            config = config[step]
        if value is REMOVED:
            del config[path[-1]]
        else:
            config[path[-1]] = value

    return change


def swap(old: str, new: str, *path: str | int) -> Change:
    """A change of a text, or of the texts of a list, at this path."""

    def change(config: Any) -> None:
        for step in path[:-1]:
            config = config[step]
        before = config[path[-1]]
        lines = before if isinstance(before, list) else [before]
        assert any(old in line for line in lines)
        after = [line.replace(old, new) for line in lines]
        config[path[-1]] = after if isinstance(before, list) else after[0]

    return change


def changed(name: str, change: Change) -> list[Config]:
    """A file's documents after a change of the last one; aliases are made copies first."""
    documents = [copy.deepcopy(yaml.safe_load(yaml.dump(each, Dumper=WithoutAliases))) for each in read(name)]
    change(documents[-1])
    return documents


class WithoutAliases(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


@pytest.mark.parametrize("name", [AWS, OWN])
def test_ray_accepts_the_file_and_nothing_else_is_wrong_with_it(name: str) -> None:
    (config,) = read(name)
    validate_config(prepare_config(config))
    assert list(launcher_problems(config)) == []


def test_ray_reads_from_the_manifest_the_resources_that_it_would_ask_kubernetes_for() -> None:
    claim, cluster = read(KUBERAY)
    config = _derive_autoscaling_config_from_ray_cr(
        {**cluster, "metadata": {**cluster["metadata"], "namespace": "default"}}
    )
    validate_config(prepare_config(config))
    types = config["available_node_types"]
    assert (types["headgroup"]["resources"]["CPU"], types["headgroup"]["resources"]["trial_driver"]) == (0, 1000)
    assert (types["gpu"]["resources"]["CPU"], types["gpu"]["resources"]["GPU"]) == (4, 1)
    assert (types["gpu"]["min_workers"], types["gpu"]["max_workers"]) == (1, 4)
    assert list(kuberay_problems(claim, cluster)) == []


def test_the_image_has_the_pinned_ray_and_the_project() -> None:
    assert list(image_problems((ROOT / IMAGE).read_text())) == []


@pytest.mark.parametrize("name", [AWS, OWN, KUBERAY, IMAGE])
def test_a_file_says_how_it_is_used_and_that_it_never_was(name: str) -> None:
    header = re.match(r"(#.*\n)+", (ROOT / name).read_text())
    assert header is not None
    assert "Never " in header[0]
    assert name in header[0]


def test_the_command_for_ones_own_machines_turns_off_the_autoscaler_that_starts_none_of_them() -> None:
    assert f"RAY_UP_enable_autoscaler_v2=0 ray up {OWN}" in (ROOT / OWN).read_text()


@pytest.mark.parametrize("name", [AWS, OWN])
def test_every_command_is_one_that_a_shell_can_read(name: str) -> None:
    (config,) = read(name)
    commands = [line for key, lines in config.items() if key.endswith("commands") for line in lines]
    assert len(commands) >= 6
    for line in commands:
        subprocess.run(["bash", "-n", "-c", line], check=True)


@pytest.mark.parametrize("name", [AWS, KUBERAY])
def test_the_command_in_the_header_keeps_data_and_results_on_the_shared_folder(name: str) -> None:
    text = (ROOT / name).read_text()
    assert re.findall(r"--(?:storage|data-dir) (\S+)", text) == [f"{STORAGE}/data", f"{STORAGE}/storage"]


def test_what_is_carried_is_what_the_installation_needs() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    (packages,) = re.findall(r"^include = \[(.*)\]$", project, re.MULTILINE)
    found = {name.strip('" *') for name in packages.split(",")}
    assert found | {"pyproject.toml", "constraints.txt", "README.md", "LICENSE"} == set(cluster_files.CARRIED)


GPU, HEAD = ("available_node_types", "gpu"), ("available_node_types", "head")
RAY_REFUSES = {
    "an unknown key": (put(1, "max_worker"), "max_worker"),
    "an unknown key of a node type": (put(1, *GPU, "maximum"), "maximum"),
    "an unknown key of docker": (put("proser", "docker", "name"), "name"),
    "no such head": (put("heads", "head_node_type"), "head_node_type"),
    "no resources": (put(REMOVED, *GPU, "resources"), "resources"),
    "more workers at least than at most": (put(9, *GPU, "min_workers"), "min_workers"),
    "a share of a GPU": (put(0.5, *GPU, "resources", "GPU"), "0.5"),
}


@pytest.mark.parametrize("case", RAY_REFUSES)
def test_ray_refuses(case: str) -> None:
    change, word = RAY_REFUSES[case]
    (config,) = changed(AWS, change)
    with pytest.raises(Exception, match=word):  # its schema's, or its own
        validate_config(prepare_config(config))


WRONG: dict[str, tuple[str, Change, str]] = {
    "no instance type": (AWS, put(REMOVED, *GPU, "node_config", "InstanceType"), "gpu has no InstanceType"),
    "no image of the machine": (AWS, put(REMOVED, *HEAD, "node_config", "ImageId"), "Ubuntu 18.04"),
    "a misspelt field of an instance": (AWS, put("x", *GPU, "node_config", "ImageID"), "'ImageID'"),
    "more CPUs than there are": (AWS, put(8, *GPU, "resources", "CPU"), "g5.xlarge has (4, 1)"),
    "no GPU where there is one": (AWS, put(REMOVED, *GPU, "resources", "GPU"), "no worker has a GPU"),
    "GPUs on a machine without": (AWS, put("m6i.xlarge", *GPU, "node_config", "InstanceType"), "m6i.xlarge has (4, 0)"),
    "a head that trains": (AWS, put(4, *HEAD, "resources", "CPU"), "a head gives 0"),
    "several heads": (AWS, put(1, *HEAD, "max_workers"), "max_workers 0"),
    "no least number": (AWS, put(REMOVED, *GPU, "min_workers"), "gpu must state min_workers"),
    "more of a type than of all": (AWS, put(9, *GPU, "max_workers"), "max_workers <= 4"),
    "machines that stay for ever": (AWS, put(REMOVED, "idle_timeout_minutes"), "idle_timeout"),
    "a misspelt key of the provider": (AWS, put("x", "provider", "zone"), "aws does not know ['zone']"),
    "another Ray": (AWS, swap("2.60.0", "2.59.0", "docker", "worker_image"), "docker.worker_image must be"),
    "another Python": (AWS, swap("py311", "py312", "docker", "head_image"), "docker.head_image must be"),
    "no drivers in the container": (AWS, swap("-gpu", "", "docker", "worker_image"), "docker.worker_image must be"),
    "a container without the shared folder": (AWS, swap("/mnt/proser:", "/mnt:", "docker", "run_options"), "not see"),
    "a file system elsewhere": (AWS, put("eu-west-1", "provider", "region"), "another region"),
    "nothing mounted": (AWS, put([], "initialization_commands"), "nothing looks whether"),
    "no token": (AWS, put(REMOVED, "file_mounts", "/home/ray/.ray/auth_token"), "token does not reach"),
    "authentication off": (AWS, swap("MODE=token", "MODE=disabled", "docker", "run_options"), "AUTH_MODE=token is not"),
    "no tracking server": (AWS, swap("MLFLOW_", "", "docker", "run_options"), "MLFLOW_TRACKING_URI=http is not"),
    "a file that is not there": (
        AWS,
        put("proser_cor", "file_mounts", "/home/ray/proser/proser_core"),
        "no proser_cor ",
    ),
    "a package left behind": (
        AWS,
        put(REMOVED, "file_mounts", "/home/ray/proser/pipelines"),
        "pipelines is not carried",
    ),
    "a command on a missing file": (AWS, swap("constraints", "pins", "setup_commands"), "needs /home/ray/proser/pins"),
    "no constraints": (AWS, put(["pip install /home/ray/proser"], "setup_commands"), "with its constraints"),
    "no autoscaler": (AWS, swap("--autoscaling-config", "--config", "head_start_ray_commands"), "start no worker"),
    "an open dashboard": (AWS, swap("127.0.0.1", "0.0.0.0", "head_start_ray_commands"), "must listen on 127.0.0.1"),
    "another port": (AWS, swap("--port=6379", "--port=6380", "head_start_ray_commands"), "another port"),
    "fewer machines than named": (OWN, put(1, "max_workers"), "must be 2"),
    "a head that is a worker": (OWN, put("192.168.1.11", "provider", "head_ip"), "head is among the workers"),
    "another Python of one's own": (
        OWN,
        swap("python3.11 -m", "python3 -m", "setup_commands"),
        "must have Python 3.11",
    ),
    "a worker without authentication": (
        OWN,
        swap("RAY_AUTH_MODE=token", "", "worker_start_ray_commands"),
        "RAY_AUTH_MODE=token is not in the environment of the worker",
    ),
    "workers that the head cannot reach": (OWN, put(REMOVED, "auth", "ssh_private_key"), "no key to reach"),
    "a Ray that cannot be stopped": (OWN, swap(">> ~/.bashrc", "> /dev/null", "setup_commands"), "find no `ray`"),
    "a folder that may not be mounted": (OWN, put(["true"], "initialization_commands"), "nothing looks whether"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_told_by_its_problem(case: str) -> None:
    name, change, words = WRONG[case]
    (config,) = changed(name, change)
    assert any(words in problem for problem in launcher_problems(config)), list(launcher_problems(config))


POD = ("template", "spec")
WORKER, MAIN = ("spec", "workerGroupSpecs", 0), (*POD, "containers", 0)
WRONG_MANIFEST: dict[str, tuple[Change, str]] = {
    "an old version of the API": (put("ray.io/v1alpha1", "apiVersion"), "not a RayCluster"),
    "another kind": (put("RayJob", "kind"), "not a RayCluster"),
    "an unknown field": (put(1, "spec", "replicas"), "fields must be"),
    "another Ray": (put("2.59.0", "spec", "rayVersion"), "rayVersion must be 2.60.0"),
    "no autoscaling": (put(False, "spec", "enableInTreeAutoscaling"), "autoscaling is off"),
    "pods that stay for ever": (put(REMOVED, "spec", "autoscalerOptions", "idleTimeoutSeconds"), "autoscaling is off"),
    "limits that differ": (put("8", *WORKER, *MAIN, "resources", "limits", "cpu"), "gpu: requests and limits differ"),
    "other CPUs than requested": (put("8", *WORKER, "rayStartParams", "num-cpus"), "gpu: num-cpus must be 4"),
    "a number without quotes": (put(1, *WORKER, "rayStartParams", "num-gpus"), "num-gpus 1, in quotes"),
    "a head that trains": (put("4", "spec", "headGroupSpec", "rayStartParams", "num-cpus"), "head: num-cpus must be 0"),
    "too many replicas": (put(9, *WORKER, "replicas"), "replicas must lie between"),
    "a volume that is not there": (put([], *WORKER, *POD, "volumes"), "gpu: /mnt/proser is not the claim"),
    "another claim": (
        put("other", "spec", "headGroupSpec", *POD, "volumes", 0, "persistentVolumeClaim", "claimName"),
        "head: /mnt/proser is not the claim",
    ),
    "workers without the token": (put([], *WORKER, *MAIN, "env"), "token of one secret"),
    "an autoscaler without the token": (put([], "spec", "autoscalerOptions", "env"), "token of one secret"),
    "authentication off": (put("disabled", *WORKER, *MAIN, "env", 0, "value"), "token of one secret"),
    "no tracking server": (put(REMOVED, *WORKER, *MAIN, "env", 2), "gpu: no MLFLOW_TRACKING_URI"),
    "two images": (put("other", *WORKER, *MAIN, "image"), "different images"),
}


@pytest.mark.parametrize("case", WRONG_MANIFEST)
def test_a_wrong_manifest_is_told_by_its_problem(case: str) -> None:
    change, words = WRONG_MANIFEST[case]
    problems = list(kuberay_problems(*changed(KUBERAY, change)))
    assert any(words in problem for problem in problems), problems


def test_a_volume_that_one_pod_alone_may_write_is_told() -> None:
    claim, cluster = read(KUBERAY)
    claim["spec"]["accessModes"] = ["ReadWriteOnce"]
    assert list(kuberay_problems(claim, cluster)) == ["the volume must be one that all pods write to"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("2.60.0", "2.59.0", "must begin from"),
        ("py311", "py312", "must begin from"),
        ("README.md LICENSE", "LICENSE", "README.md is not there"),
        ("COPY --chown=ray pipelines", "# pipelines", "pipelines is not there"),
        ("--constraint", "--requirement", "constraints are not used"),
    ],
)
def test_a_wrong_image_is_told_by_its_problem(old: str, new: str, words: str) -> None:
    text = (ROOT / IMAGE).read_text()
    assert old in text
    assert any(words in problem for problem in image_problems(text.replace(old, new)))
