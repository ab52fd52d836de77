"""The Ray cluster: what it has room for, and trainings on it."""

import functools
import json
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import ray
import torch
from ray import tune

from pipelines.cluster.address import check_job, check_storage_visible
from pipelines.cluster.early_stopping import early_stopping
from pipelines.cluster.ray_internals import release_lost_groups
from pipelines.cluster.session import DRIVER_RESOURCE, join
from pipelines.cluster.train_worker import (
    CROWDED,
    FULL_DISK,
    MEMORY_PAUSE_S,
    RETRIES,
    CrowdedError,
    Workers,
    failure_reason,
    is_low_memory,
    run_distributed_trial,
    run_searched_trial,
    run_single_trial,
    train_distributed,
)
from pipelines.console import warn
from pipelines.storage.mirror import Mirror
from pipelines.storage.training_folder import training_folder
from proser_core.config import ClusterConfig
from proser_core.errors import ClusterError, ProserError, StorageError, last_line
from proser_core.jobs.spec import FAILURE, STATE, Job
from proser_core.jobs.starting_point import delete_changed_checkpoint
from proser_core.store.store import load_if_complete

RAY_FOLDER = "ray"  # of a storage, for what Ray itself writes while it runs


@dataclass
class Cluster:
    """A Ray cluster that is joined, or started on this machine, when the first job needs it."""

    config: ClusterConfig
    storage: Path
    stops_trials: bool = False
    """Whether trials may be stopped early; a local Ray without its dashboard would never free their resources."""
    grows_to: list[dict[str, float]] = field(default_factory=list)
    """Resources of each machine of an autoscaling cluster at full size; empty for one of fixed size."""
    mirror: Mirror | None = None
    """Keeps `storage` in step with a URI that all machines reach; None where all machines see the folder."""
    _resources: dict[str, float] = field(default_factory=dict)

    def connect(self) -> dict[str, float]:
        """Resources of the cluster, at its full size, by Ray's names. Raises ClusterError where it does not answer."""
        if self._resources:
            return self._resources
        join(self.config.address, dashboard=self.stops_trials)
        if self.config.address:
            check_storage_visible(self.storage if self.mirror is None else self.mirror.objects.uri)
        nodes = _live_nodes()
        if len(self.grows_to) > len(nodes):
            nodes = self.grows_to
        self._compare(nodes, self.config.address or "this machine")
        self._resources = dict(sum(map(Counter, nodes), Counter()))
        return self._resources

    @property
    def starting(self) -> str:
        """What `connect` is doing or will do, for people; empty once it has."""
        if self._resources:
            return ""
        return f"joining the cluster at {self.config.address}" if self.config.address else "starting Ray"

    def check(self) -> None:
        """Raises ClusterError, before any work, where a job could never start; Ray would wait forever."""
        check_job(self.config.address, self.storage)
        if self.config.address:
            self.connect()
        else:
            local = {"CPU": float(psutil.cpu_count() or 1)}
            if self.config.uses_gpu:
                local["GPU"] = float(torch.cuda.device_count())
            self._compare([local], "this machine")

    def _compare(self, nodes: list[dict[str, float]], where: str) -> None:
        """Count how many workers fit on each machine: a worker never spans two."""
        few = "min_workers" if self.config.min_workers else "num_workers"
        for name in (few, "pretrain_workers"):
            workers = getattr(self.config, name)
            for kind, each in self._worker_resources().items():
                has = sum(node.get(kind, 0.0) for node in nodes)
                if workers > _count_shares(nodes, kind, each):
                    raise ClusterError(
                        f"cluster.{name} {workers} with {each:g} {kind} each needs {workers * each:g} {kind}s; "
                        f"{where} has {has:g} on {len(nodes)} node(s). "
                        f"Lower cluster.{name} or cluster.{kind.lower()}s_per_worker, "
                        "or give a larger cluster with --cluster.address"
                    )

    def concurrent_jobs(self, workers: int) -> int:
        """How many trainings of so many workers fit on the cluster at a time."""
        resources = self.connect()
        shares = self._worker_resources().items()
        fits = min(_count_shares([resources], kind, workers * each) for kind, each in shares)
        return max(1, min(fits, self.config.max_concurrent or fits))

    def fitting(self, memory_bytes: int, workers: int) -> int | None:
        """For how many trainings of so many workers the live nodes have memory, each worker taking so much; None where
        that is not known. Ray counts a node's memory when it starts, without its object store."""
        memory = [node["memory"] for node in _live_nodes() if "memory" in node]
        if not memory or not memory_bytes or self.grows_to:
            return None
        return sum(int(has // memory_bytes) for has in memory) // workers

    def shortage(self, workers: int) -> str:
        """What a training of so many workers waits for on the live nodes; empty where it fits. Resources that lost
        processes of such trainings still hold are released."""
        if not self._resources:
            return ""  # it is not joined yet
        if workers > 1:
            release_lost_groups()
        nodes = _live_nodes()
        for kind, each in self._worker_resources().items():
            fits = _count_shares(nodes, kind, each)
            if fits < workers:
                return f"{workers} worker(s) of {each:g} {kind}; the cluster has room for {fits} now"
        return ""

    def call_on_workers(self, function: Callable[..., Any], arguments: tuple[Any, ...], copies: int) -> list[Any]:
        """Results of a function on `copies` workers at once, each with a worker's resources. Raises ClusterError where
        a worker runs out of device memory or is lost."""
        self.connect()
        resources = self._worker_resources()
        remote = ray.remote(num_cpus=resources["CPU"], num_gpus=resources.get("GPU", 0.0))(function)
        try:
            return ray.get([remote.remote(*arguments) for _ in range(copies)])
        except ProserError:
            raise
        except (ray.exceptions.RayError, RuntimeError) as error:  # a worker's own error is both
            raise ClusterError(
                f"a worker could not take a step ({last_line(error)}); lower the batch size, or give workers more "
                "with --cluster.cpus-per-worker or --cluster.gpus-per-worker"
            ) from error

    def run_jobs(
        self, jobs: list[Job], workers: int, name: str, *, max_seconds: float = 0.0, stop_early: bool = False
    ) -> None:
        """Run trainings of `workers` DDP workers each; the reason of one that fails is in its folder.

        A lost worker or machine is replaced, and its training resumes after its last epoch, up to RETRIES times.
        Trainings that still run after `max_seconds` (0: no limit) are stopped; with `stop_early`, so are those that
        fall behind on development data. Raises StorageError where the disk is full: no other training would end either.
        """
        self.connect()
        folders = [Path(job.folder) for job in jobs]
        for folder in folders:
            (folder / FAILURE).unlink(missing_ok=True)
            if delete_changed_checkpoint(folder):
                warn(f"{folder / STATE} was changed after it was written; its training begins again")
        if self.mirror is not None:
            jobs = self.mirror.begin(jobs)
        if len(jobs) > 1 or workers == 1 or max_seconds:
            self._tune(jobs, workers, name, max_seconds, stop_early, self.concurrent_jobs(workers))
        else:
            config, folder = self._worker_config(jobs[0]), self.storage / RAY_FOLDER
            try:
                train_distributed(config, self._scaling(jobs, workers), self._worker_resources(), folder)
            except CrowdedError as error:  # it was alone already
                training_folder(config).write_failure(str(error))
        if self.mirror is not None:
            self.mirror.poll(folders)

    def _worker_config(self, job: Job) -> dict[str, Any]:
        """As `training_folder` reads it."""
        return {"job": job.to_json(), "storage": None if self.mirror is None else self.mirror.address}

    def _tune(
        self,
        jobs: list[Job],
        workers: int,
        name: str,
        max_seconds: float,
        stop_early: bool,
        at_a_time: int,
        retries: int = RETRIES,
    ) -> None:
        """Through Ray Tune. Those whose machine was low on memory begin again, half as many at a time; where it was one
        at a time already, up to `retries` times."""
        began = time.monotonic()
        crowded = self._tune_once(jobs, workers, name, max_seconds, stop_early, at_a_time)
        left = max_seconds - (time.monotonic() - began) if max_seconds else 0.0
        if at_a_time == 1:
            retries -= 1
        if crowded and retries >= 0 and left >= 0:
            time.sleep(MEMORY_PAUSE_S)
            again = [job for job in jobs if Path(job.folder).name in crowded]
            self._tune(again, workers, name, left, stop_early, max(1, at_a_time // 2), retries)
        else:
            self._fail({Path(job.folder).name: job for job in jobs}, crowded)

    def _fail(self, jobs: dict[str, Job], reasons: dict[str, str]) -> None:
        for name, reason in reasons.items():
            training_folder(self._worker_config(jobs[name])).write_failure(reason)

    def _tune_once(
        self, jobs: list[Job], workers: int, name: str, max_seconds: float, stop_early: bool, at_a_time: int
    ) -> dict[str, str]:
        """Reasons of the trainings that the machine had no memory for, by the names of their folders. One worker is a
        reused actor; several are a light driver that starts a TorchTrainer."""
        trainable: Callable[[dict[str, Any]], None] = run_searched_trial if stop_early else run_single_trial
        resources, folder = self._worker_resources(), self.storage / RAY_FOLDER
        if workers > 1:
            scaling = self._scaling(jobs, workers)
            shared: dict[str, Any] = {"num_workers": scaling, "resources": resources, "storage": folder}
            trainable = functools.partial(run_distributed_trial, **shared)
            # of a CPU the driver would hold a share that a worker waits for
            resources = {DRIVER_RESOURCE: 1.0} if DRIVER_RESOURCE in self.connect() else {"memory": 1.0}
        by_name = {Path(job.folder).name: job for job in jobs}
        shutil.rmtree(folder / name, ignore_errors=True)  # of a killed run
        tuner = tune.Tuner(
            tune.with_resources(_with_job_as_text(trainable), resources),
            # as text: for each trial Tune copies the whole grid, value by value
            param_space={
                **self._worker_config(jobs[0]),
                "job": tune.grid_search([json.dumps(job.to_json()) for job in jobs]),
            },
            tune_config=tune.TuneConfig(
                max_concurrent_trials=at_a_time,
                reuse_actors=workers == 1,
                trial_dirname_creator=lambda trial: Path(json.loads(trial.config["job"])["folder"]).name,
                time_budget_s=max_seconds or None,
                scheduler=early_stopping(jobs) if stop_early else None,
            ),
            run_config=tune.RunConfig(
                name=name, storage_path=str(folder), verbose=0, failure_config=tune.FailureConfig(max_failures=RETRIES)
            ),
        )
        try:
            results = list(tuner.fit())
        except RuntimeError as error:
            if not is_low_memory(error):
                raise
            return self._unfinished(by_name, failure_reason(error))
        finally:
            shutil.rmtree(folder / name, ignore_errors=True)  # the storage itself records what is finished
        return self._crowded(results, by_name, may_wait=at_a_time > 1)

    def _unfinished(self, jobs: dict[str, Job], reason: str) -> dict[str, str]:
        """Trainings that neither finished nor failed, each with the reason. Ray 2.60's Tune gives up all of them where
        Ray's memory monitor ends one in mid-training."""
        if self.mirror is not None:
            self.mirror.poll([Path(job.folder) for job in jobs.values()])
        folders = {name: Path(job.folder) for name, job in jobs.items()}
        return {
            name: reason
            for name, folder in folders.items()
            if load_if_complete(folder) is None and not (folder / FAILURE).is_file()
        }

    def _crowded(self, results: Sequence[tune.Result], jobs: dict[str, Job], may_wait: bool) -> dict[str, str]:
        """Trainings for which the machine had no memory, with the reason, if they may wait for it; the reason of any
        other failure is written into its folder. Raises StorageError where the disk is full."""
        crowded, failed = dict[str, str](), dict[str, str]()
        for result in results:
            reported = result.metrics or {}
            # by its folder: a trial that failed before its first report has no config in its result
            name = Path(result.path).name
            if FULL_DISK in reported:
                raise StorageError(reported[FULL_DISK])
            if CROWDED not in reported and result.error is None:
                continue
            is_crowded = CROWDED in reported or is_low_memory(result.error)
            reasons = crowded if is_crowded and may_wait else failed
            reasons[name] = reported.get(CROWDED) or failure_reason(result.error)
        self._fail(jobs, failed)
        return crowded

    def _scaling(self, jobs: Sequence[Job], workers: int) -> Workers:
        """A fine-tune's workers, as many as there is room for if it may have fewer."""
        fewest = self.config.min_workers
        return (fewest, workers) if fewest and jobs[0].kind == "finetune" else workers

    def _worker_resources(self) -> dict[str, float]:
        gpus = {"GPU": self.config.gpus_per_worker} if self.config.uses_gpu else {}
        return {"CPU": float(self.config.cpus_per_worker), **gpus}


def _with_job_as_text(trainable: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def trial(config: dict[str, Any]) -> None:
        trainable({**config, "job": json.loads(config["job"])})

    return trial


def _live_nodes() -> list[dict[str, float]]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _count_shares(nodes: list[dict[str, float]], kind: str, each: float) -> int:
    """How many shares of a resource fit on the machines, each on one; 0.1 fits ten times into 1.0."""
    return sum(math.floor(node.get(kind, 0.0) / each + 1e-9) for node in nodes)
