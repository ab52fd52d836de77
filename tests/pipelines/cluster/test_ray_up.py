"""`ray up` with clusters/own_machines.yaml, on two machines that share this computer, and a run on them."""

import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from own_machines import SHARED, Machine, cannot_be, machines, ssh
from waiting import until

ROOT = Path(__file__).parents[3]
FILE = ROOT / "clusters" / "own_machines.yaml"
RAY = [sys.executable, "-m", "ray.scripts.scripts"]
RUN = "run digits --space '' --data.image-size 8 --pretrain.epochs 1 --finetune.epochs 1"


def as_filled_in(head: Machine, worker: Machine, tracking: str) -> dict[str, Any]:
    """The file as a user fills it in; the environment of this project stands in for the one that pip would make."""
    for machine in (head, worker):
        (machine.home / "proser-venv").symlink_to(sys.prefix)
    config: dict[str, Any] = yaml.safe_load(FILE.read_text().replace("http://FILL-IN:5000", tracking))
    config["provider"] |= {"head_ip": head.address, "worker_ips": [worker.address]}
    config["auth"] = {"ssh_user": "root", "ssh_private_key": str(head.folder / "key")}
    config |= {"min_workers": 1, "max_workers": 1}
    *_, path = config["setup_commands"]
    return {**config, "setup_commands": [path]}


@pytest.mark.slow
def test_it_starts_both_machines_and_a_run_trains_on_them(tmp_path: Path) -> None:
    reason = cannot_be()
    if reason:
        pytest.skip(reason)
    home = tmp_path / "home"
    (home / ".ray").mkdir(parents=True)
    (home / ".ray" / "auth_token").write_text(secrets.token_hex(16))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"HOME": str(home), "RAY_UP_enable_autoscaler_v2": "0", "RAY_TMPDIR": str(tmp_path / "ray")}
    with machines(2) as (head, worker):
        config = tmp_path / "filled_in.yaml"
        config.write_text(yaml.safe_dump(as_filled_in(head, worker, f"sqlite:///{SHARED}/mlflow.db")))

        def ray(command: str) -> str:
            done = subprocess.run(
                [*RAY, command, "--yes", str(config)], cwd=ROOT, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        ray("up")
        there = f"export RAY_AUTH_MODE=token MLFLOW_TRACKING_URI=sqlite:///{SHARED}/mlflow.db; cd ~/proser; "
        until(lambda: nodes(head, there) == 2, log=lambda: monitor_log(head), pause_s=2)
        said = ssh(head, f"{there} python -m pipelines.cli {RUN} --cluster.address auto --storage {SHARED}/storage")
        assert "not tracked" not in said
        assert len(list((head.folder / "shared/storage/trials").glob("*/manifest.json"))) == 2, said
        ray("down")
        until(lambda: ssh(worker, "ps -C raylet -o stat= | grep -v Z || true") == "", pause_s=2)


def nodes(head: Machine, there: str) -> int:
    """That are alive; 0 before the head knows itself."""
    program = "import ray; ray.init('auto', log_to_driver=False, logging_level='ERROR'); "
    program += "print(sum(node['Alive'] for node in ray.nodes()))"
    return int(ssh(head, f'{there} python -c "{program}" 2>/dev/null || echo 0').split()[-1])


def monitor_log(head: Machine) -> str:
    """What the autoscaler says that starts the worker."""
    logs = (head.home / "ray/ray/session_latest/logs").glob("monitor.*")
    return "\n".join(path.read_text()[:6000] for path in logs)
