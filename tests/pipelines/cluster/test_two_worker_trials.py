"""Trials of more than one DDP worker: a TorchTrainer under each Tune trial, on a real local Ray."""

import glob
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
import torch.distributed as dist
import torch.multiprocessing
from training_jobs import ignore, tiny_recipe, training_job

from pipelines.cluster import train_worker
from pipelines.cluster.cluster import Cluster
from pipelines.cluster.session import DRIVER_RESOURCE
from pipelines.storage.storage import Storage
from proser_core.data.tasks import OpenSetTask
from proser_core.digests import sha256_of
from proser_core.errors import CheckpointError, ClusterError
from proser_core.jobs import spec
from proser_core.jobs.worker import run_job
from proser_core.recognition.logit_tables import load_logits
from proser_core.store.store import Artefact, load_if_complete, write_manifest

pytestmark = pytest.mark.usefixtures("last_of_ray")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    recipe = tiny_recipe()
    return Cluster(replace(recipe.cluster, num_workers=2), Storage(tmp_path_factory.mktemp("storage")))


def run_rank(rank: int, job: spec.Job, store: str) -> None:
    """One of two processes of a job, without Ray."""
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    try:
        run_job(job, ignore)
    finally:
        dist.destroy_process_group()


@pytest.mark.slow
def test_a_trial_of_two_workers_leaves_what_two_processes_without_ray_do(
    cluster: Cluster, task: Artefact, closed_set_weights: Path, tmp_path: Path
) -> None:
    """One that diverges beside it stands with the remote storages."""
    folder, apart = tmp_path / "trial", tmp_path / "apart"
    trial = training_job(task, folder, replace(tiny_recipe(), cluster=cluster.config), weights=closed_set_weights)
    cluster.run_jobs([trial], 2, "two-workers", max_seconds=600)  # with a limit it goes through Tune, as several do
    assert load_if_complete(folder) is not None
    assert [row["epoch"] for row in spec.read_epochs(folder)] == [0, 1]
    assert len(load_logits(folder / spec.LOGITS)["test"]) == len(OpenSetTask.load(task.path).test)
    store = (tmp_path / "store").as_uri()
    torch.multiprocessing.spawn(run_rank, args=(replace(trial, folder=str(apart)), store), nprocs=2)
    for name in (spec.WEIGHTS, spec.LOGITS, spec.EPOCHS):
        assert sha256_of(folder / name) == sha256_of(apart / name), name


@pytest.mark.slow
def test_a_pretraining_that_diverges_leaves_its_reason(cluster: Cluster, task: Artefact, tmp_path: Path) -> None:
    recipe = tiny_recipe()
    diverging = replace(recipe, pretrain=replace(recipe.pretrain, lr=1e38))
    folder = tmp_path / "pretrain"
    folder.mkdir()
    cluster.run_jobs([training_job(task, folder, diverging, "pretrain")], 2, "pretrain")
    assert "must stay finite" in (folder / spec.FAILURE).read_text()


class OnlyHere:
    """Of a module that workers cannot import."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trainable", "words"),
    [
        (lambda config: OnlyHere(), "No module named"),
        (lambda config: (print("the last words", flush=True), os.kill(os.getpid(), signal.SIGKILL)), "the last words"),
    ],
    ids=["never began", "killed"],
)
def test_a_trial_whose_process_died_says_where_its_log_is(
    trainable: Any, words: str, cluster: Cluster, task: Artefact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.cluster.tune_jobs.run_single_trial", trainable)
    monkeypatch.setattr("pipelines.cluster.tune_jobs.RETRIES", 0)
    folder = tmp_path / "trial"
    cluster.run_jobs([training_job(task, folder)], 1, "died")
    assert load_if_complete(folder) is None
    reason = (folder / spec.FAILURE).read_text()
    (path,) = re.findall(r"^the worker exited without reporting an error; its log is in (\S+) on \S+$", reason)
    assert any(words in Path(log).read_text() for log in glob.glob(path))


@pytest.mark.slow
def test_the_reason_of_a_failure_is_recorded_while_other_trials_run(
    cluster: Cluster, task: Artefact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_or_wait(config: dict[str, Any]) -> None:
        folder, end = Path(config["job"]["folder"]), time.monotonic() + 60
        if folder.name == "failed":
            raise RuntimeError("no such device")
        while not (recorded := (folder.parent / "failed" / spec.FAILURE).exists()) and time.monotonic() < end:
            time.sleep(0.1)
        if recorded:
            write_manifest(folder, {})

    monkeypatch.setattr("pipelines.cluster.tune_jobs.run_single_trial", fail_or_wait)
    monkeypatch.setattr("pipelines.cluster.tune_jobs.RETRIES", 0)
    failed, waited = tmp_path / "failed", tmp_path / "waited"
    for folder in (failed, waited):
        folder.mkdir()
    cluster.run_jobs([training_job(task, failed), training_job(task, waited)], 1, "recorded")
    assert "no such device" in spec.read_failure(failed)
    assert load_if_complete(waited) is not None


@pytest.mark.slow
def test_a_worker_that_is_lost_and_replaced_costs_one_line(
    cluster: Cluster, task: Artefact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def lost_once(config: dict[str, Any]) -> None:
        folder = Path(config["job"]["folder"])
        if not (folder / "lost").exists():
            (folder / "lost").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        write_manifest(folder, {})

    monkeypatch.setattr("pipelines.cluster.tune_jobs.run_single_trial", lost_once)
    job = training_job(task, tmp_path / "trial")
    Path(job.folder).mkdir(exist_ok=True)
    capfd.readouterr()
    cluster.run_jobs([job], 1, "lost", max_seconds=600, titles={"trial": "C=3"})
    assert load_if_complete(Path(job.folder)) is not None
    time.sleep(2)  # for what Ray prints late
    out, err = capfd.readouterr()
    assert "(raylet)" not in out
    lost = "proser: the worker of C=3 was lost or failed (1 of at most 3 times); it continues from its last epoch"
    assert err.splitlines() == [lost]


@pytest.mark.slow
def test_an_error_that_only_the_rank_that_scores_meets_ends_every_rank(
    cluster: Cluster, task: Artefact, tmp_path: Path
) -> None:
    recipe = tiny_recipe()
    one_batch = len(OpenSetTask.load(task.path).train) // 2 * 2
    pretrain = replace(recipe.pretrain, lr=1e38, schedule="constant", epochs=1, batch_size=one_batch)
    job = training_job(task, tmp_path / "pretrain", replace(recipe, pretrain=pretrain), "pretrain")
    cluster.run_jobs([job], 2, "pretrain")
    assert "logits that are not finite" in (tmp_path / "pretrain" / spec.FAILURE).read_text()


@pytest.mark.slow
def test_an_error_of_one_rank_alone_ends_every_rank_and_is_the_reason(
    cluster: Cluster, task: Artefact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one waits for a gradient of both. Another attempt would meet it again."""
    train_loop, attempts = train_worker._train_loop, tmp_path / "attempts"

    def lame(config: dict[str, Any]) -> str:
        if ray.train.get_context().get_world_rank() == 1:

            def fail(*_: Any, **__: Any) -> None:
                with attempts.open("a") as file:
                    file.write("one ")
                raise CheckpointError("rank 1 has other weights")

            train_loop.__globals__["run_any"] = fail  # of this worker's process
        return train_loop(config)

    monkeypatch.setattr(train_worker, "_train_loop", lame)
    job = training_job(task, tmp_path / "pretrain", kind="pretrain")
    Path(job.folder).mkdir()
    cluster.run_jobs([job], 2, "pretrain")
    # with its kind in front where rank 0 emptied the folder after it was told there
    assert spec.read_failure(Path(job.folder)).endswith("rank 1 has other weights")
    assert attempts.read_text() == "one "


def test_what_a_lost_controller_held_is_given_back_and_what_the_driver_holds_is_not(cluster: Cluster) -> None:
    cpus = cluster.connect()["CPU"]
    own = ray.util.placement_group([{DRIVER_RESOURCE: 1}])  # as Tune makes one for each trial
    ray.get(own.ready())

    @ray.remote(num_cpus=0)
    class Controller:
        def take(self) -> None:
            self.group = ray.util.placement_group([{"CPU": cpus}])
            ray.get(self.group.ready())

    controller = Controller.remote()
    ray.get(controller.take.remote())
    assert cluster.shortage(2) == ""
    assert free_cpus() == 0
    ray.kill(controller)
    end = time.monotonic() + 60
    while free_cpus() < cpus and time.monotonic() < end:
        cluster.shortage(2)
        time.sleep(0.2)
    assert free_cpus() == cpus
    assert ray.util.placement_group_table(own)["state"] == "CREATED"
    ray.util.remove_placement_group(own)


def test_a_function_runs_on_several_workers_and_its_error_is_named(cluster: Cluster) -> None:
    def divide(number: int) -> float:
        return 6 / number

    assert cluster.call_on_workers(divide, (2,), 2) == [3.0, 3.0]
    with pytest.raises(ClusterError, match=r"a worker could not take a step .*lower the batch size"):
        cluster.call_on_workers(divide, (0,), 2)


def free_cpus() -> float:
    return ray.available_resources().get("CPU", 0.0)


def test_a_training_that_no_living_nodes_can_hold_is_named(cluster: Cluster) -> None:
    cpus = int(cluster.connect()["CPU"])
    assert cluster.shortage(cpus + 1) == f"{cpus + 1} workers of 1 CPU; the cluster has room for {cpus} now"
