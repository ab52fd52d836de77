"""One attempt at a training, as Ray's processes carry it out, with one worker or with several.

An error that another attempt would meet too leaves its reason in the training's folder and ends it; any other is
Ray's to try again, and the training goes on from its last epoch. A full disk is reported instead, because there
may be no room for a reason.
"""

import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from pipelines.storage.training_folder import Place, place_of
from proser_core.errors import ProserError, StorageError, TrainingError, last_line
from proser_core.jobs.spec import Job, read_scores
from proser_core.store.files import full_disk_named
from proser_core.store.lock import alone_at
from proser_core.store.store import find

RETRIES = 3
"""Workers or machines that one training may lose before it counts as failed."""
FULL_DISK = "full_disk"  # what a trial reports where there is no room for its reason in its folder


def run_single_trial(config: dict[str, Any]) -> None:
    """Tune trainable of a one-worker training."""
    from ray import tune

    def follow(job: Job, place: Place) -> Callable[[dict[str, float]], None]:
        def notify(metrics: dict[str, float]) -> None:
            place.publish()
            tune.report(metrics)

        return notify

    attempt(config, follow)


def run_searched_trial(config: dict[str, Any]) -> None:
    """Tune trainable of a one-worker training whose network is scored after every epoch.

    What was scored before is reported again, so that the scheduler knows what it knew.
    """
    from ray import tune

    from pipelines.cluster.early_stopping import EpochScorer

    def follow(job: Job, place: Place) -> Callable[[dict[str, float]], None]:
        for row in read_scores(Path(job.folder)):
            tune.report(row)
        scorer = EpochScorer(job)

        def notify(metrics: dict[str, float]) -> None:
            row = scorer.score()
            place.publish()
            tune.report(row)

        return notify

    attempt(config, follow)


def attempt(config: dict[str, Any], follow: Callable[[Job, Place], Callable[[dict[str, float]], None]]) -> None:
    """Train in this process alone; `follow(job, place)` is called first and gives what each epoch is told to."""
    from ray import tune

    from pipelines.cluster.streaming import opener
    from proser_core.jobs.worker import run_job

    place = place_of(config)
    try:
        with _writing(place.folder), place.at_hand() as job:
            notify = follow(job, place)
            if find(place.folder) is None:
                check_room(job)
                run_job(job, notify, open_stream=opener(job))
    except StorageError as error:
        tune.report({FULL_DISK: str(error)})
    except ProserError as error:
        place.leave(str(error))


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    with full_disk_named(folder), alone_at(folder):
        yield


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


def train_distributed(config: dict[str, Any], num_workers: int, resources: dict[str, float], storage: Path) -> None:
    """A TorchTrainer whose workers run the job of `config`; gloo on CPUs, nccl on GPUs.

    Ray writes to `storage`, and to a folder of this machine where not all machines see that. Raises
    TrainingError with the worker's own message, StorageError where the disk is full.
    """
    from ray.exceptions import RayActorError
    from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchTrainer

    place, job = place_of(config), Job(**config["job"])
    storage, name = place.scratch or storage, f"{job.kind}-{Path(job.folder).name}"
    trainer = TorchTrainer(
        _train_loop,
        train_loop_config=config,
        scaling_config=ScalingConfig(
            num_workers=num_workers, use_gpu=resources.get("GPU", 0) > 0, resources_per_worker=dict(resources)
        ),
        run_config=RunConfig(name=name, storage_path=str(storage), failure_config=FailureConfig(max_failures=RETRIES)),
    )
    full_disk = ""
    try:
        shutil.rmtree(storage / name, ignore_errors=True)  # of a run that was killed
        full_disk = _fit(trainer).return_value
    except (TrainingFailedError, RayActorError) as error:
        place.leave(last_line(error))
    finally:
        shutil.rmtree(storage / name, ignore_errors=True)
    if full_disk:
        raise StorageError(full_disk)
    reason = place.reason()
    if reason is not None:
        raise TrainingError(reason)


def _fit(trainer: Any) -> Any:
    """Ray Train replaces lost workers; a lost controller, the process that does so, is replaced here."""
    from ray.exceptions import RayActorError

    for attempts in range(RETRIES + 1):
        try:
            with _own_interrupt():
                return trainer.fit()
        except RayActorError:
            if attempts == RETRIES:
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

    from pipelines.cluster.streaming import opener
    from proser_core.jobs.worker import run_job

    place, writes = place_of(config), ray.train.get_context().get_world_rank() == 0
    if config["job"]["recipe"]["cluster"]["gpus_per_worker"]:
        torch.cuda.set_device(ray.train.torch.get_device())
    full_disk = ""

    def notify(metrics: dict[str, float]) -> None:
        place.publish()
        if not _agreed(True):
            raise _EndedError
        ray.train.report(metrics)

    try:
        with _writing(place.folder) if writes else nullcontext():
            if not _agreed(True):  # what is brought before rank 0 is alone could be of an earlier attempt
                return ""
            with place.at_hand() as job:
                if writes:
                    check_room(job)
                if not _agreed(find(place.folder) is None):
                    return ""
                run_job(job, notify, open_stream=opener(job))
    except _EndedError:
        return ""
    except StorageError as error:
        full_disk = str(error)
    except ProserError as error:
        if writes:
            place.leave(str(error))
    _agreed(False)
    return full_disk


class _EndedError(Exception):
    """Rank 0 has ended its training."""


def _agreed(answer: bool) -> bool:
    """What rank 0 answers, for all ranks."""
    from ray.train.collective import broadcast_from_rank_zero

    return broadcast_from_rank_zero(answer)
