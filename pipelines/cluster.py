"""The Ray cluster: connecting, checking what it has, and starting jobs on it."""

import logging
import math
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from proser_core.config import ClusterConfig
from proser_core.errors import ClusterError, ProserError, StorageError, TrainingError, first_line
from proser_core.jobs.files import full_disk_named, write_atomically
from proser_core.jobs.lock import alone_at
from proser_core.jobs.spec import FAILURE, Job
from proser_core.jobs.store import find

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_METRICS_ENABLED": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}
RAY_FOLDER = "ray"  # of a storage, for what Ray itself writes while it runs
RETRIES = 3
"""Workers or machines that one training may lose before it counts as failed."""
DRIVER_RESOURCE = "trial_driver"  # taken by the light process that waits for a trial's DDP workers
FULL_DISK = "full_disk"  # what a trial reports where there is no room for its reason in its folder


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
                if each and workers > sum(_shares(node.get(kind, 0.0), each) for node in nodes):
                    raise ClusterError(
                        f"cluster.{name} {workers} with {each:g} {kind} each needs {workers * each:g} {kind}s; "
                        f"{where} has {has:g} on {len(nodes)} node(s). "
                        f"Lower cluster.{name} or cluster.{kind.lower()}s_per_worker, "
                        "or give a larger cluster with --cluster.address"
                    )

    def concurrent_jobs(self, workers: int) -> int:
        """Trainings of so many workers that fit on the cluster at a time."""
        resources = self.connect()
        fits = _shares(resources.get("CPU", 1.0), workers * self.config.cpus_per_worker)
        if self.config.uses_gpu:
            fits = min(fits, _shares(resources.get("GPU", 0.0), workers * self.config.gpus_per_worker))
        return max(1, min(fits, self.config.max_concurrent or fits))

    def watch(self, workers: int) -> str:
        """Give back what lost processes of such trainings still hold; what a training of so many workers waits
        for on the nodes that live now, or the empty string where it fits."""
        if not self._resources:
            return ""  # it is not joined yet
        import ray

        if workers > 1:
            _release_lost()
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        for kind, each in self._worker_resources().items():
            fits = sum(_shares(node.get(kind, 0.0), each) for node in nodes)
            if fits < workers:
                return f"{workers} worker(s) of {each:g} {kind}; the cluster has room for {fits} now"
        return ""

    def on_workers(self, function: Callable[..., Any], arguments: tuple[Any, ...], copies: int) -> list[Any]:
        """Call a function on `copies` workers at a time, each with a worker's resources, and wait for all.

        Raises ClusterError where a worker runs out of its device's memory or is lost.
        """
        self.connect()
        import ray

        resources = self._worker_resources()
        remote = ray.remote(num_cpus=resources["CPU"], num_gpus=resources.get("GPU", 0.0))(function)
        try:
            return ray.get([remote.remote(*arguments) for _ in range(copies)])
        except ProserError:
            raise
        except (ray.exceptions.RayError, RuntimeError) as error:  # a worker's own error is both
            raise ClusterError(
                f"a worker could not take a step ({_last_line(error)}); lower the batch size, or give workers more "
                "with --cluster.cpus-per-worker or --cluster.gpus-per-worker"
            ) from error

    def run_jobs(self, jobs: list[Job], workers: int, name: str) -> None:
        """Run trainings of `workers` DDP workers each; one that fails leaves its reason and the others go on.

        A worker, or the machine below it, that is lost is replaced, and its training goes on from its last
        epoch, up to RETRIES times. Raises StorageError where the disk is full: no other training would end either.
        """
        self.connect()
        for job in jobs:
            (Path(job.folder) / FAILURE).unlink(missing_ok=True)
        if len(jobs) > 1 or workers == 1:
            self._tune(jobs, workers, name)
            return
        with suppress(TrainingError):  # its reason lies in the folder
            train_distributed(jobs[0], workers, self._worker_resources(), self.storage / RAY_FOLDER)

    def _tune(self, jobs: list[Job], workers: int, name: str) -> None:
        """Through Ray Tune: one worker is a reused actor, more are a light driver that starts a TorchTrainer."""
        from ray import tune

        trainable: Callable[[dict[str, Any]], None]
        if workers == 1:
            trainable, resources = run_single_trial, self._worker_resources()
        else:
            trainable, resources = self._distributed_trial(workers), {DRIVER_RESOURCE: 1.0}
            if DRIVER_RESOURCE not in self.connect():
                resources = {"memory": 1.0}  # a share of a CPU could be the one that a worker waits for
        folder = self.storage / RAY_FOLDER
        shutil.rmtree(folder / name, ignore_errors=True)  # of a run that was killed
        tuner = tune.Tuner(
            tune.with_resources(trainable, resources),
            param_space={"job": tune.grid_search([job.to_json() for job in jobs])},
            tune_config=tune.TuneConfig(
                max_concurrent_trials=self.concurrent_jobs(workers),
                reuse_actors=workers == 1,
                trial_dirname_creator=lambda trial: trial.trial_id,
            ),
            run_config=tune.RunConfig(
                name=name,
                storage_path=str(folder),
                verbose=0,
                failure_config=tune.FailureConfig(max_failures=RETRIES),
            ),
        )
        results = list(tuner.fit())
        shutil.rmtree(folder / name, ignore_errors=True)  # the storage itself says what is finished
        for result in results:
            if FULL_DISK in (result.metrics or {}):
                raise StorageError(result.metrics[FULL_DISK])
            if result.error is not None:
                _leave_reason(Path(result.config["job"]["folder"]), _last_line(result.error))

    def _distributed_trial(self, workers: int) -> Callable[[dict[str, Any]], None]:
        resources, storage = self._worker_resources(), self.storage / RAY_FOLDER

        def trial(config: dict[str, Any]) -> None:
            from ray import tune

            outcome: dict[str, Any] = {"ended": 1}
            try:
                train_distributed(Job(**config["job"]), workers, resources, storage)
            except StorageError as error:
                outcome[FULL_DISK] = str(error)
            except TrainingError:  # its reason lies in the folder
                pass
            tune.report(outcome)

        return trial

    def _worker_resources(self) -> dict[str, float]:
        gpus = {"GPU": self.config.gpus_per_worker} if self.config.uses_gpu else {}
        return {"CPU": float(self.config.cpus_per_worker), **gpus}


def run_single_trial(config: dict[str, Any]) -> None:
    """Tune trainable of a one-worker training.

    An error that another attempt would meet too has left its reason in the folder and ends the trial;
    any other is Tune's to try again.
    """
    from ray import tune

    from proser_core.jobs.worker import run_job

    job = Job(**config["job"])
    folder = Path(job.folder)
    try:
        with full_disk_named(folder), alone_at(folder):
            if find(folder) is None:
                check_room(job)
                run_job(job, notify=lambda metrics: tune.report(metrics))
    except StorageError as error:
        tune.report({FULL_DISK: str(error)})
    except ProserError as error:
        _leave_reason(folder, str(error))


def check_room(job: Job) -> None:
    """Raises StorageError rather than train an epoch whose checkpoint, weights and momentum, has no room beside
    the one before it."""
    needed = 4 * os.stat(job.weights).st_size if job.weights else 0
    free = shutil.disk_usage(job.folder).free
    if free < needed:
        raise StorageError(
            f"the disk of {job.folder} has {free / 2**20:.1f} MiB free, and two checkpoints need "
            f"{needed / 2**20:.1f} MiB; free some space, then the same command goes on from the last finished epoch"
        )


def train_distributed(job: Job, num_workers: int, resources: dict[str, float], storage: Path) -> None:
    """A TorchTrainer whose workers run the job; gloo on CPUs, nccl on GPUs.

    Raises TrainingError with the worker's own message.
    """
    from ray.exceptions import RayActorError
    from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchTrainer

    name = f"{job.kind}-{Path(job.folder).name}"
    trainer = TorchTrainer(
        _train_loop,
        train_loop_config={"job": job.to_json()},
        scaling_config=ScalingConfig(
            num_workers=num_workers, use_gpu=resources.get("GPU", 0) > 0, resources_per_worker=dict(resources)
        ),
        run_config=RunConfig(name=name, storage_path=str(storage), failure_config=FailureConfig(max_failures=RETRIES)),
    )
    folder = Path(job.folder)
    try:
        shutil.rmtree(storage / name, ignore_errors=True)  # of a run that was killed
        full_disk = _fit(trainer).return_value
    except (TrainingFailedError, RayActorError) as error:
        full_disk = ""
        _leave_reason(folder, _last_line(error))
    finally:
        shutil.rmtree(storage / name, ignore_errors=True)
    if full_disk:
        raise StorageError(full_disk)
    if (folder / FAILURE).is_file():
        raise TrainingError((folder / FAILURE).read_text())


def _fit(trainer: Any) -> Any:
    """Ray Train replaces lost workers; a lost controller, the process that does so, is replaced here."""
    from ray.exceptions import RayActorError

    for attempt in range(RETRIES + 1):
        try:
            with _own_interrupt():
                return trainer.fit()
        except RayActorError:
            if attempt == RETRIES:
                raise
    raise AssertionError


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


def _train_loop(config: dict[str, Any]) -> str:
    """One rank of a DDP training; the message of a full disk, or the empty string.

    Every rank hears after each epoch whether rank 0, which alone writes, goes on: the others would wait for it.
    """
    import ray.train
    import ray.train.torch
    import torch

    from proser_core.jobs.worker import run_job

    job = Job(**config["job"])
    folder, writes = Path(job.folder), ray.train.get_context().get_world_rank() == 0
    if job.recipe["cluster"]["gpus_per_worker"]:
        torch.cuda.set_device(ray.train.torch.get_device())
    full_disk = ""
    try:
        with full_disk_named(folder), alone_at(folder) if writes else nullcontext():
            if writes:
                check_room(job)
            if not _agreed(find(folder) is None):
                return ""

            def notify(metrics: dict[str, float]) -> None:
                if not _agreed(True):
                    raise _EndedError
                ray.train.report(metrics)

            run_job(job, notify)
    except _EndedError:
        return ""
    except StorageError as error:
        full_disk = str(error)
    except ProserError as error:
        if writes:
            _leave_reason(folder, str(error))
    _agreed(False)
    return full_disk


class _EndedError(Exception):
    """Rank 0 has ended its training."""


def _agreed(answer: bool) -> bool:
    """What rank 0 answers, for all ranks."""
    from ray.train.collective import broadcast_from_rank_zero

    return broadcast_from_rank_zero(answer)


def _leave_reason(folder: Path, reason: str) -> None:
    """Write down what ended a training, where its worker has not."""
    if not (folder / FAILURE).is_file():
        with suppress(OSError):
            write_atomically(folder / FAILURE, reason.encode())


def _release_lost() -> None:
    """Remove this run's placement groups whose creator, a Train controller, has died.

    Ray's own cleaner asks the dashboard whether it lives; where none runs it asks for ever, and the next
    attempt waits for the workers' resources as long (Ray 2.60). The table that names creators is not public.
    """
    import ray
    from ray.core.generated.gcs_pb2 import PlacementGroupTableData
    from ray.util.placement_group import PlacementGroup, remove_placement_group

    job = ray.get_runtime_context().get_job_id()
    for entry in ray._private.state.state._connect_and_get_accessor().get_placement_group_table():
        group = PlacementGroupTableData.FromString(entry)
        removed = group.state == PlacementGroupTableData.REMOVED
        if group.creator_actor_dead and not removed and group.creator_job_id.hex() == job:
            remove_placement_group(PlacementGroup(ray.PlacementGroupID(group.placement_group_id)))


def _last_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1]


def _shares(has: float, each: float) -> int:
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
