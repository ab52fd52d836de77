"""The Ray cluster: connecting, checking what it has, and starting jobs on it."""

import logging
import math
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from proser_core.config import ClusterConfig
from proser_core.errors import ClusterError, TrainingError, first_line
from proser_core.jobs.files import write_atomically
from proser_core.jobs.spec import FAILURE, Job

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
DRIVER_RESOURCE = "trial_driver"  # taken by the light process that waits for a trial's DDP workers


@dataclass
class Cluster:
    """A Ray cluster that is joined, or started on this machine, when the first job needs it."""

    config: ClusterConfig
    storage: Path
    _resources: dict[str, float] = field(default_factory=dict)

    def connect(self) -> dict[str, float]:
        """Resources of the cluster, by Ray's names. Raises ClusterError where it does not answer."""
        if self._resources:
            return self._resources
        os.environ.update({name: value for name, value in QUIET.items() if name not in os.environ})
        import ray

        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        try:
            if self.config.address:
                _knock(self.config.address)
                ray.init(self.config.address, ignore_reinit_error=True, **options)
            elif not ray.is_initialized():
                ray.init("local", include_dashboard=False, resources={DRIVER_RESOURCE: 1000}, **options)
        except (OSError, RuntimeError, ValueError) as error:
            where = self.config.address or "this machine"
            raise ClusterError(
                f"no Ray cluster answers at {where} ({first_line(error)}); start one with `ray start --head`, "
                "or leave cluster.address empty to start Ray on this machine"
            ) from error
        for name in ("ray.tune", "ray.train", "ray.data"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._resources = ray.cluster_resources()
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        self._compare(nodes, self.config.address or "this machine")
        return self._resources

    def check(self) -> None:
        """Compare what the run asks for with what there is, before any work.

        Raises ClusterError where a job could never start; Ray would wait for ever.
        """
        if self.config.address:
            self.connect()
        else:
            local = {"CPU": float(psutil.cpu_count() or 1)}
            if self.config.uses_gpu:
                local["GPU"] = float(_local_gpus())
            self._compare([local], "this machine")

    def _compare(self, nodes: list[dict[str, float]], where: str) -> None:
        """A worker lives on one machine: count how many fit on each."""
        for name in ("num_workers", "pretrain_workers"):
            workers = getattr(self.config, name)
            for kind, each in (("CPU", self.config.cpus_per_worker), ("GPU", self.config.gpus_per_worker)):
                has = sum(node.get(kind, 0.0) for node in nodes)
                if each and workers > sum(_fit(node.get(kind, 0.0), each) for node in nodes):
                    raise ClusterError(
                        f"cluster.{name} {workers} with {each:g} {kind} each needs {workers * each:g} {kind}s; "
                        f"{where} has {has:g} on {len(nodes)} node(s). "
                        f"Lower cluster.{name} or cluster.{kind.lower()}s_per_worker, "
                        "or give a larger cluster with --cluster.address"
                    )

    def concurrent_trials(self) -> int:
        """Fine-tunes that fit on the cluster at a time."""
        resources = self.connect()
        workers = self.config.num_workers
        fits = _fit(resources.get("CPU", 1.0), workers * self.config.cpus_per_worker)
        if self.config.uses_gpu:
            fits = min(fits, _fit(resources.get("GPU", 0.0), workers * self.config.gpus_per_worker))
        return max(1, min(fits, self.config.max_concurrent or fits))

    def run_distributed(self, job: Job, num_workers: int) -> None:
        """Run one job as DDP over `num_workers` Ray Train workers, and wait for it."""
        self.connect()
        train_distributed(job, num_workers, self._worker_resources(), self.storage / "ray")

    def run_trials(self, jobs: list[Job], name: str) -> None:
        """Run fine-tunes through Ray Tune; one that fails leaves its message and the others go on.

        A one-worker fine-tune is a reused actor; one of more workers is a light driver that
        starts a TorchTrainer.
        """
        concurrent = self.concurrent_trials()
        from ray import tune

        trainable: Callable[[dict[str, Any]], None]
        if self.config.num_workers == 1:
            trainable, resources = run_single_trial, self._worker_resources()
        else:
            trainable, resources = self._distributed_trial(), {DRIVER_RESOURCE: 1.0}
            if DRIVER_RESOURCE not in self.connect():
                resources = {"memory": 1.0}  # a share of a CPU could be the one that a worker waits for
        tuner = tune.Tuner(
            tune.with_resources(trainable, resources),
            param_space={"job": tune.grid_search([job.to_json() for job in jobs])},
            tune_config=tune.TuneConfig(
                max_concurrent_trials=concurrent,
                reuse_actors=self.config.num_workers == 1,
                trial_dirname_creator=lambda trial: trial.trial_id,
            ),
            run_config=tune.RunConfig(name=name, storage_path=str(self.storage / "ray"), verbose=0),
        )
        for job in jobs:
            (Path(job.folder) / FAILURE).unlink(missing_ok=True)
        for result in tuner.fit():
            if result.error is not None:
                _keep_reason(result)

    def _distributed_trial(self) -> Callable[[dict[str, Any]], None]:
        workers, resources, storage = self.config.num_workers, self._worker_resources(), self.storage / "ray"

        def trial(config: dict[str, Any]) -> None:
            from ray import tune

            train_distributed(Job(**config["job"]), workers, resources, storage)
            tune.report({"finished": 1})

        return trial

    def _worker_resources(self) -> dict[str, float]:
        gpus = {"GPU": self.config.gpus_per_worker} if self.config.uses_gpu else {}
        return {"CPU": float(self.config.cpus_per_worker), **gpus}


def run_single_trial(config: dict[str, Any]) -> None:
    """Tune trainable of a one-worker fine-tune."""
    from ray import tune

    from pipelines.streaming import opener
    from proser_core.jobs.worker import run_job

    job = Job(**config["job"])
    run_job(job, notify=lambda metrics: tune.report(metrics), open_stream=opener(job))


def train_distributed(job: Job, num_workers: int, resources: dict[str, float], storage: Path) -> None:
    """A TorchTrainer whose workers run the job; gloo on CPUs, nccl on GPUs."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchTrainer

    trainer = TorchTrainer(
        _train_loop,
        train_loop_config={"job": job.to_json()},
        scaling_config=ScalingConfig(
            num_workers=num_workers, use_gpu=resources.get("GPU", 0) > 0, resources_per_worker=dict(resources)
        ),
        run_config=RunConfig(
            name=f"{job.kind}-{Path(job.folder).name}",
            storage_path=str(storage),
            failure_config=FailureConfig(max_failures=0),
        ),
    )
    try:
        with _own_interrupt():
            trainer.fit()
    except TrainingFailedError as error:  # hides the worker's own message
        failure = Path(job.folder) / FAILURE
        if failure.is_file():
            raise TrainingError(failure.read_text()) from error
        raise


@contextmanager
def _own_interrupt() -> Iterator[None]:
    """Ray Train takes Ctrl-C for itself, ends in SystemExit, and never gives it back: undo all three."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as error:
        raise KeyboardInterrupt from error
    finally:
        signal.signal(signal.SIGINT, handler)


def _train_loop(config: dict[str, Any]) -> None:
    import ray.train
    import ray.train.torch
    import torch

    from pipelines.streaming import opener
    from proser_core.jobs.worker import run_job

    job = Job(**config["job"])
    if job.recipe["cluster"]["gpus_per_worker"]:
        torch.cuda.set_device(ray.train.torch.get_device())
    run_job(job, notify=lambda metrics: ray.train.report(metrics), open_stream=opener(job))


def _keep_reason(result: Any) -> None:
    """What ended a trial, where its worker could not write it down itself."""
    failure = Path(result.config["job"]["folder"]) / FAILURE
    if not failure.is_file():
        lines = str(result.error).strip().splitlines() or [type(result.error).__name__]
        write_atomically(failure, lines[-1].encode())


def _fit(has: float, each: float) -> int:
    """How many shares of `each` there are; 0.1 fits ten times into 1.0."""
    return math.floor(has / each + 1e-9)


def _knock(address: str) -> None:
    """Raises OSError at once where nothing listens at host:port; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=5).close()


def _local_gpus() -> int:
    import torch

    return torch.cuda.device_count()
