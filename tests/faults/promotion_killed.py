"""`proser promote` is killed between its writes."""

import os
import subprocess
import sys

from lab import Lab
from losses import Loss
from mlflow import MlflowClient
from sweeps import SMALL, require

from pipelines.tracking.decisions import ALIAS, VERSION, holders_before
from pipelines.tracking.server import EXPERIMENT
from pipelines.tracking.versions import CHAMPION

MODEL, WRITES = "promoted", ("log_metric", "set_registered_model_alias", "set_terminated")
KILLED = "import os, signal, sys; from mlflow import MlflowClient; from pipelines.cli import main; "
KILLED += "MlflowClient.{} = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL); sys.exit(main())"


def between_writes(lab: Lab) -> Loss:
    """A promotion is killed before a metric, before the alias moves, and after; the same command finishes it."""
    folder = lab.root / "promotion"
    folder.mkdir()
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    environment = {**os.environ, "MLFLOW_TRACKING_URI": uri, "HOME": str(folder), "RAY_TMPDIR": str(folder)}

    def proser(*arguments: str, program: tuple[str, str] = ("-m", "pipelines.cli")) -> int:
        command = [sys.executable, *program, *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        require(done.returncode in (0, -9), f"{arguments}: {done.stderr[-300:]}")
        return done.returncode

    small = [*SMALL, "--space", "", "--model-name", MODEL]
    for dummies in ("1", "2"):
        proser("run", "digits", *small, "--finetune.num-dummies", dummies)
    client, broken = MlflowClient(uri), list[str]()
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    command = ("promote", "--version", "2", "--force", "--model-name", MODEL)
    for count, write in enumerate(WRITES, start=1):
        require(proser(*command, program=("-c", KILLED.format(write))) == -9, f"not killed at {write}")
        holder = client.get_model_version_by_alias(MODEL, CHAMPION).version
        proser(*command)
        now = client.get_model_version_by_alias(MODEL, CHAMPION).version
        found = client.search_runs([experiment.experiment_id], f"tags.`{ALIAS}` = '{CHAMPION}'")
        finished = [run for run in found if run.info.status == "FINISHED" and run.data.tags[VERSION] == "2"]
        broken += (
            [] if str(holder) in "12" and str(now) == "2" else [f"{write}: the alias was at {holder}, is at {now}"]
        )
        broken += [] if len(finished) == count else [f"{write}: {len(finished)} decisions instead of {count}"]
        broken += [f"{write}: a decision runs" for run in found if run.info.status == "RUNNING"]
        broken += [] if holders_before(client, MODEL, CHAMPION, "2") == ["1"] else [f"{write}: wrong history"]
        proser("rollback", "--model-name", MODEL)
    return Loss("promotion killed between its writes", times=str(len(WRITES)), equal="yes", broken=tuple(broken))
