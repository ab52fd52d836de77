"""A trial of one to two workers on two nodes: it goes on with one where the other's node goes away."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from ray_nodes import Head, announce_end, head_node, node
from training_jobs import tiny_recipe, training_job
from waiting import until

from pipelines.cluster.attempts import LEFT
from pipelines.cluster.session import DRIVER_RESOURCE
from proser_core.jobs import spec
from proser_core.store.store import Artefact, load_if_complete

TRAIN = """
import json, sys, threading, time
from pathlib import Path
from pipelines.cluster.cluster import Cluster
from pipelines.storage.storage import Storage
from proser_core.config import ClusterConfig
from proser_core.jobs.spec import Job

job, config = Job(**json.loads(sys.argv[1])), ClusterConfig(**json.loads(sys.argv[2]))
cluster = Cluster(config, Storage(Path(sys.argv[3])))

def watch():  # as the watch of a sweep
    while True:
        time.sleep(1)
        cluster.shortage(config.fewest_workers)

threading.Thread(target=watch, daemon=True).start()
cluster.run_jobs([job], 2, "elastic", max_seconds=600)
"""
PROJECT = str(Path(__file__).parents[3])
LONGEST = 480.0  # Ray keeps what a lost driver has reserved for 180 s


@pytest.mark.slow
@pytest.mark.parametrize("end", ["unannounced", "announced"])
def test_it_goes_on_with_one_worker_where_a_node_goes_away(
    end: str, task: Artefact, closed_set_weights: Path, tmp_path: Path
) -> None:
    """The trial's driver, too, is on the machine whose end is announced; the next attempt finds another one for it."""
    with head_node(PYTHONPATH=PROJECT, RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S="15") as head, ExitStack() as nodes:

        def add(name: str, cpus: int, *resources: str) -> ExitStack:
            arguments = [f"--address={head.address}", f"--num-cpus={cpus}", *resources]
            added = nodes.enter_context(ExitStack())
            added.enter_context(node(arguments, head.environment, tmp_path / name))
            return added

        drivers = [] if end == "unannounced" else [f'--resources={{"{DRIVER_RESOURCE}": 1}}']
        second = add("second.log", 1, *drivers)
        recipe = tiny_recipe(epochs=40)
        recipe = replace(recipe, cluster=replace(recipe.cluster, num_workers=2, min_workers=1, address=head.address))
        job = training_job(task, tmp_path / "trial", recipe, weights=closed_set_weights)
        with training(job, vars(recipe.cluster), head, tmp_path) as process:
            until(lambda: len(workers_of(job)) > 1, process)
            if end == "announced":
                announce_end(head, deadline_s=60)
                until(lambda: has_left(head), process)
            second.close()  # the machine is taken away
            if drivers:
                add("third.log", 0, *drivers)
            assert process.wait(LONGEST) == 0, (tmp_path / "driver.log").read_text()
        assert has_left(head) == (end == "announced"), "it left by itself"
    assert load_if_complete(Path(job.folder)) is not None, (tmp_path / "driver.log").read_text()
    workers = workers_of(job)
    assert len(workers) == 40
    assert set(workers) == {1.0, 2.0}
    assert workers == sorted(workers, reverse=True), "with two, then with one"


@contextmanager
def training(job: spec.Job, config: dict[str, object], head: Head, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The trial, in a driver of its own."""
    arguments = [json.dumps(job.to_json()), json.dumps(config), str(folder / "storage")]
    with (folder / "driver.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", TRAIN, *arguments], env=head.environment, stdout=log, stderr=log, cwd=folder
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def workers_of(job: spec.Job) -> list[float]:
    """How many workers trained each epoch so far."""
    return [row["train/workers"] for row in spec.read_epochs(Path(job.folder))]


def has_left(head: Head) -> bool:
    """Whether the training has left a machine by itself."""
    logs = (head.folder / "ray" / "session_latest" / "logs" / "train").glob("*app-controller*")
    return any(LEFT in log.read_text() for log in logs)
