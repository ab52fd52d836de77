"""The Ray cluster: what it has room for, and trainings on it."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import ray
import torch

from pipelines.cluster.address import check_job, check_storage_visible
from pipelines.cluster.attempts import MEMORY_PAUSE_S, RETRIES, CrowdedError, failure_reason, is_low_memory
from pipelines.cluster.lone_node import watched_node
from pipelines.cluster.ray_internals import keep_coordinator, local_cpus, release_lost_groups
from pipelines.cluster.scaling import count_shares, count_workers, worker_resources
from pipelines.cluster.session import DRIVER_RESOURCE, join
from pipelines.cluster.train_worker import Workers, train_distributed
from pipelines.cluster.tune_jobs import TuneJobs
from pipelines.console import warn
from pipelines.progress import HEARTBEAT
from pipelines.storage.storage import Storage
from pipelines.storage.training_folder import training_folder
from proser_core.config import ClusterConfig
from proser_core.errors import ClusterError, ProserError, last_line
from proser_core.jobs.any_job import train_in_turn
from proser_core.jobs.spec import FAILURE, STATE, Job
from proser_core.jobs.starting_point import delete_changed_checkpoint
from proser_core.titles import counted

WAIT_SAID_S = 5.0
"""Seconds without room for a worker after which that is said, where other work holds the cluster."""
RAY_FOLDER = "ray"  # of a storage, for what Ray itself writes while it runs


@dataclass
class Cluster:
    """A Ray cluster that is joined, or started on this machine, when the first job needs it."""

    config: ClusterConfig
    store: Storage
    stops_trials: bool = False
    """Whether a limit of time may end trials; a local Ray without its dashboard would never free their resources."""
    compares_times: bool = False
    """Whether times of trainings are compared, so that each has as many cores as it asks for and no more."""
    grows_to: list[dict[str, float]] = field(default_factory=list)
    """Resources of each machine of an autoscaling cluster at full size; empty for one of fixed size."""
    _nodes: list[dict[str, float]] = field(default_factory=list)

    def connect(self) -> dict[str, float]:
        """Resources of the cluster, at its full size, by Ray's names. Raises ClusterError where it does not answer."""
        if not self._nodes:
            join(self.config.address, dashboard=self.stops_trials)
            if self.config.address:
                check_storage_visible(self.store)
            # what lives is there, whatever the file says or leaves open
            nodes = max(_live_nodes(), self.grows_to, key=partial(count_workers, config=self.config))
            self._compare(nodes, self.config.address or "this machine")
            self._nodes = nodes
        return dict(sum(map(Counter, self._nodes), Counter()))

    @property
    def starting(self) -> str:
        """What `connect` is doing or will do, for people; empty once it has."""
        if self._nodes:
            return ""
        return f"joining the cluster at {self.config.address}" if self.config.address else "starting Ray"

    def check(self) -> None:
        """Raises ClusterError, before any work, where a job could never start; Ray would wait forever."""
        check_job(self.config.address, self.store.root)
        if self.config.address:
            self.connect()
        else:
            local = {"CPU": local_cpus()}
            if self.config.uses_gpu:
                local["GPU"] = float(torch.cuda.device_count())
            self._compare([local], "this machine")

    def _compare(self, nodes: list[dict[str, float]], where: str) -> None:
        """Count how many workers fit on each machine: a worker never spans two."""
        few = "min_workers" if self.config.min_workers else "num_workers"
        for name in (few, "pretrain_workers"):
            workers = getattr(self.config, name)
            for kind, each in worker_resources(self.config).items():
                has = sum(node.get(kind, 0.0) for node in nodes)
                if workers > count_shares(nodes, kind, each):
                    raise ClusterError(
                        f"cluster.{name} {workers} with {each:g} {kind} each needs {workers * each:g} {kind} in all; "
                        f"{where} has {has:g} on {counted(len(nodes), 'node')}. "
                        f"Lower cluster.{name} or cluster.{kind.lower()}s_per_worker, "
                        "or give a larger cluster with --cluster.address"
                    )
            fits = count_workers(nodes, self.config)
            if workers > fits:  # where one machine has the cores, and another one the GPU
                raise ClusterError(
                    f"cluster.{name} {workers} needs {self._shares()} on one machine for each worker; {where} has "
                    f"room for {fits} on {counted(len(nodes), 'node')}. Lower cluster.{name} or what a worker takes, "
                    "or give a larger cluster with --cluster.address"
                )

    def with_idle_cores(self, trainings: int, workers: int) -> "Cluster":
        """The same with more cores for each worker, where so many trainings side by side would leave cores idle. On
        this machine alone, where nobody else waits for them; no more than the threads that torch takes by itself."""
        if self.config.address or self.config.uses_gpu or self.compares_times:
            return self
        at_once = min(trainings, self.config.max_concurrent or trainings)
        cores = int(self.connect()["CPU"]) // (at_once * workers)
        cpus = max(self.config.cpus_per_worker, min(cores, torch.get_num_threads()))
        return replace(self, config=replace(self.config, cpus_per_worker=cpus))

    def concurrent_jobs(self, workers: int) -> int:
        """How many trainings of so many workers fit on the cluster at a time: a worker never spans two machines."""
        self.connect()
        fits = count_workers(self._nodes, self.config) // workers
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
        if not self._nodes:
            return ""  # it is not joined yet
        if max(workers, self.config.num_workers) > 1:
            release_lost_groups()
        fits, shares = count_workers(_live_nodes(), self.config), self._shares()
        if fits >= workers:
            return ""
        return f"{counted(workers, 'worker')} of {shares}; the cluster has room for {fits} now"

    def _shares(self) -> str:
        return " and ".join(f"{each:g} {kind}" for kind, each in worker_resources(self.config).items())

    def call_on_workers(self, function: Callable[..., Any], arguments: tuple[Any, ...], copies: int) -> list[Any]:
        """Results of a function on `copies` workers at once, each with a worker's resources; on one where a worker is
        lost. Raises ClusterError where a worker runs out of device memory, or is lost RETRIES times more."""
        self.connect()
        resources = worker_resources(self.config)
        # Ray itself would try again for ever on a machine that stays low on memory
        as_worker = ray.remote(num_cpus=resources["CPU"], num_gpus=resources.get("GPU", 0.0), max_retries=0)
        if self.config.address:
            self._wait_for_room(resources, as_worker(_begin).remote)
        remote = as_worker(function)
        for attempts in range(RETRIES + 1):
            try:
                return ray.get([remote.remote(*arguments) for _ in range(1 if attempts else copies)])
            except ProserError:
                raise
            except (ray.exceptions.OutOfMemoryError, ray.exceptions.WorkerCrashedError) as error:
                if attempts == RETRIES:
                    raise ClusterError(f"a step could not be measured: {failure_reason(error)}") from error
                if is_low_memory(error):
                    time.sleep(MEMORY_PAUSE_S)
            except (ray.exceptions.RayError, RuntimeError) as error:  # a worker's own error is both
                raise ClusterError(
                    f"a worker could not take a step ({last_line(error)}); lower the batch size, or give workers more "
                    "with --cluster.cpus-per-worker or --cluster.gpus-per-worker"
                ) from error
        raise AssertionError

    def _wait_for_room(self, resources: dict[str, float], begin: Callable[[], ray.ObjectRef]) -> None:
        """Where other work holds what a worker needs, say so until one has begun, or failed to."""
        free, has, patience = ray.available_resources(), ray.cluster_resources(), WAIT_SAID_S
        taken = [kind for kind, each in resources.items() if free.get(kind, 0.0) < each]
        begun = [begin()] if taken else []
        while begun and not ray.wait(begun, timeout=patience)[0]:
            free = ray.available_resources()
            for kind in taken:
                many = "s" if resources[kind] > 1 else ""
                warn(
                    f"waiting for {resources[kind]:g} free {kind}{many} of the cluster at {self.config.address} "
                    f"({free.get(kind, 0.0):g} of {has.get(kind, 0.0):g} are free now)"
                )
            patience = HEARTBEAT

    def run_jobs(
        self,
        jobs: list[Job],
        workers: int,
        name: str,
        *,
        max_seconds: float = 0.0,
        titles: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Run trainings of `workers` DDP workers each; the reason of one that fails is in its folder. `titles` name
        them for people, by their folders' names.

        A lost worker or machine is replaced, and its training resumes after its last epoch, up to RETRIES times.
        Trainings that still run after `max_seconds` (0: no limit) are stopped. Raises StorageError where the disk is
        full: no other training would end either.
        """
        if all(job.embeddings for job in jobs):  # each takes a second: less than a worker's start
            self._run_here(jobs, max_seconds)
            return
        self.connect()
        folders = [Path(job.folder) for job in jobs]
        for folder in folders:
            (folder / FAILURE).unlink(missing_ok=True)
            if delete_changed_checkpoint(folder):
                warn(f"{folder / STATE} was changed after it was written; its training begins again")
        jobs = self.store.begin(jobs)
        with nullcontext() if self.config.address else watched_node():
            if self.config.is_elastic(jobs[0].kind):
                keep_coordinator()
            if len(jobs) > 1 or workers == 1 or max_seconds:
                self._tune(jobs, workers, name, max_seconds, titles)
            else:
                self._train_alone(jobs[0], workers)
        self.store.poll(folders)

    def _train_alone(self, job: Job, workers: int) -> None:
        config = {"job": job.to_json(), "storage": self.store.address}
        scaling, folder = self._scaling([job], workers), self.store.root / RAY_FOLDER
        try:
            train_distributed(config, scaling, worker_resources(self.config), folder)
        except CrowdedError as error:  # it was alone already
            training_folder(job, self.store.address).write_failure(str(error))

    def _run_here(self, jobs: Sequence[Job], max_seconds: float) -> None:
        self.store.train_here(Path(job.folder) for job in jobs)
        for folder in train_in_turn(jobs, max_seconds):
            self.store.push(folder)

    def _tune(self, jobs: list[Job], workers: int, name: str, max_seconds: float, titles: Mapping[str, str]) -> None:
        # of a CPU the driver would hold a share that a worker waits for
        driver = {DRIVER_RESOURCE: 1.0} if DRIVER_RESOURCE in self.connect() else {"memory": 1.0}
        scaling, folder = self._scaling(jobs, workers), self.store.root / RAY_FOLDER
        together = TuneJobs(scaling, worker_resources(self.config), driver, folder, name, self.store, titles)
        together.run(jobs, self.concurrent_jobs(workers), max_seconds)

    def _scaling(self, jobs: Sequence[Job], workers: int) -> Workers:
        """A fine-tune's workers, as many as there is room for if it may have fewer."""
        return (self.config.min_workers, workers) if self.config.is_elastic(jobs[0].kind) else workers


def _begin() -> None:
    """What a worker does to show that it has begun."""


def _live_nodes() -> list[dict[str, float]]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]
