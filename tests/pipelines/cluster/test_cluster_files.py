"""The files that launch a cluster, checked offline: Ray's own schema, and what changes with this project."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.kuberay.autoscaling_config import _derive_autoscaling_config_from_ray_cr
from ray.autoscaler._private.util import prepare_config, validate_config

ROOT = Path(__file__).parents[3]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()
AWS, OWN = "ray_cluster.yaml", "clusters/own_machines.yaml"
KUBERAY, IMAGE = "clusters/kuberay.yaml", "clusters/Dockerfile"


@pytest.fixture(autouse=True)
def _in_the_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # from where `ray up` is typed


def read(name: str) -> dict[str, Any]:
    """The last document of a YAML file."""
    *_, config = yaml.safe_load_all((ROOT / name).read_text())
    return dict(config)


def python_version() -> str:
    """The Python that constraints.txt was resolved on, such as 3.11."""
    (found,) = re.findall(r"Python (\d+\.\d+)", CONSTRAINTS)
    return str(found)


def carried(name: str) -> set[str]:
    """The parts of the project that a file copies to the machines."""
    if name == IMAGE:
        copies = re.findall(r"^COPY \S+ (.*) \S+$", (ROOT / name).read_text(), re.MULTILINE)
        return {part for line in copies for part in line.split()}
    return {here for here in read(name)["file_mounts"].values() if not here.startswith("~")}


def environments(name: str) -> list[Any]:
    """Where the environment of each process of Ray is set."""
    config = read(name)
    if name == AWS:
        return [config["docker"]["run_options"]]
    if name == OWN:
        return [config["head_start_ray_commands"], config["worker_start_ray_commands"]]
    spec = config["spec"]
    pods = [group["template"]["spec"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])]
    return [spec["autoscalerOptions"]["env"], *(pod["containers"][0]["env"] for pod in pods)]


@pytest.mark.parametrize("name", [AWS, OWN])
def test_ray_accepts_the_file(name: str) -> None:
    validate_config(prepare_config(read(name)))


def test_ray_reads_from_the_manifest_the_resources_that_it_would_ask_kubernetes_for() -> None:
    cluster = read(KUBERAY)
    config = _derive_autoscaling_config_from_ray_cr(
        {**cluster, "metadata": {**cluster["metadata"], "namespace": "default"}}
    )
    validate_config(prepare_config(config))
    types = config["available_node_types"]
    assert (types["headgroup"]["resources"]["CPU"], types["headgroup"]["resources"]["trial_driver"]) == (0, 1000)
    assert (types["gpu"]["resources"]["CPU"], types["gpu"]["resources"]["GPU"]) == (4, 1)
    assert (types["gpu"]["min_workers"], types["gpu"]["max_workers"]) == (1, 4)


def test_the_head_of_ones_own_machines_holds_the_drivers_of_trials() -> None:
    (start,) = (line for line in read(OWN)["head_start_ray_commands"] if "ray start" in line)
    (resources,) = re.findall(r"--resources='(.*?)'", start)
    assert json.loads(resources) == {"trial_driver": 1000}


@pytest.mark.parametrize("name", [AWS, OWN, KUBERAY, IMAGE])
def test_versions_are_the_pinned_ones(name: str) -> None:
    text, python = (ROOT / name).read_text(), python_version()
    (ray,) = re.findall(r"^ray==(.*)$", CONSTRAINTS, re.MULTILINE)
    tags = re.findall(r"rayproject/ray:(\S+)", text)
    assert {tag.removesuffix("-gpu") for tag in tags} <= {f"{ray}-py{python.replace('.', '')}"}
    assert set(re.findall(r'rayVersion: "(.*)"', text)) <= {ray}
    assert set(re.findall(r"python(3\S*) -m venv", text)) <= {python}


@pytest.mark.parametrize("name", [AWS, OWN, IMAGE])
def test_what_is_carried_is_what_the_installation_needs(name: str) -> None:
    project = (ROOT / "pyproject.toml").read_text()
    (packages,) = re.findall(r"^include = \[(.*)\]$", project, re.MULTILINE)
    needed = {package.strip('" *') for package in packages.split(",")}
    assert carried(name) == needed | {"pyproject.toml", "constraints.txt", "README.md", "LICENSE"}


@pytest.mark.parametrize("name", [AWS, OWN])
def test_every_command_is_one_that_a_shell_can_read(name: str) -> None:
    commands = [line for key, lines in read(name).items() if key.endswith("commands") for line in lines]
    assert len(commands) >= 6
    for line in commands:
        subprocess.run(["bash", "-n", "-c", line], check=True)


@pytest.mark.parametrize("name", [AWS, OWN, KUBERAY])
def test_every_process_of_ray_uses_the_token(name: str) -> None:
    for environment in environments(name):
        assert re.search("RAY_AUTH_MODE(=|', 'value': ')token", str(environment)), environment
