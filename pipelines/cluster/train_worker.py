"""One attempt at a training in Ray's processes, with one worker or with several.

An error that another attempt would meet too is recorded in the training's folder and ends the training. After any other
error, and one that only some of several workers may meet, Ray attempts it again, and it resumes after its last epoch. A
full disk is reported to Ray instead, because there may be no room to record it. Where its machine is announced to go
away, a training leaves it at the end of an epoch.
"""

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal

import ray.train
import ray.train.torch
import torch
from ray import tune
from ray.exceptions import OutOfMemoryError, RayActorError
from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError, UserCallback
from ray.train.collective import broadcast_from_rank_zero

from pipelines.cluster.attempts import (
    LEFT,
    MEMORY_PAUSE_S,
    RETRIES,
    CrowdedError,
    LeavingError,
    failure_reason,
    is_low_memory,
)
from pipelines.cluster.ray_internals import machine_is_leaving
from pipelines.cluster.streaming import stream_opener
from pipelines.storage.training_folder import training_folder
from proser_core.errors import ProserError, StorageError, TrainingError
from proser_core.jobs.any_job import run_any
from proser_core.jobs.checkpoint_score import epochs_in_checkpoint, score_checkpoint
from proser_core.jobs.own_networks.spec import job_of, weight_files
from proser_core.jobs.probe import StepCost, measure_step
from proser_core.jobs.spec import Job
from proser_core.jobs.starting_point import check_starting_point
from proser_core.store.files import disk_full_errors
from proser_core.store.lock import exclusive_training
from proser_core.store.store import load_if_complete

FULL_DISK, CROWDED = "full_disk", "crowded"  # fields in which a trial reports why it ended: no room on disk, in memory
Workers = int | tuple[int, int]
"""How many of one training, or the fewest and the most."""


def run_single_trial(config: dict[str, Any]) -> None:
    """Tune trainable of a one-worker training, in this process alone."""
    folder = training_folder(job_of(config["job"]), config["storage"])
    try:
        with _alone_in(folder.path), folder.localised_job() as job:

            def notify(metrics: dict[str, float]) -> None:
                if _has_come_to_pause(job):
                    raise _PausedError
                folder.publish()
                tune.report(metrics)
                if machine_is_leaving():
                    raise LeavingError(LEFT)

            if load_if_complete(folder.path) is None:
                check_disk_space(job)
                check_starting_point(job)
                if not _has_come_to_pause(job):
                    with suppress(_PausedError):
                        run_any(job, notify, open_stream=stream_opener(job))
                if _has_come_to_pause(job):
                    score_checkpoint(job, stream_opener(job))
                    folder.publish()
    except StorageError as error:
        tune.report({FULL_DISK: str(error)})
    except ProserError as error:
        folder.write_failure(str(error))


class _PausedError(Exception):
    """A training ends for now."""


def _has_come_to_pause(job: Job) -> bool:
    """Whether it has trained as many epochs as it is to train now."""
    return job.pause > 0 and epochs_in_checkpoint(Path(job.folder)) >= job.pause


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    with disk_full_errors(folder), exclusive_training(folder):
        yield


def measure_training_step(kind: Literal["pretrain", "finetune"], recipe: dict[str, Any]) -> StepCost:
    """Call `measure_step` in a process that has loaded all that a worker loads, which is much of its memory."""
    return measure_step(kind, recipe)


def check_disk_space(job: Job) -> None:
    """Raises StorageError, before an epoch is trained, where its checkpoint (weights and momentum) does not fit on the
    disk together with the previous one; their size is known where a training begins from weights."""
    needed = 4 * sum(os.stat(path).st_size for path in weight_files(job))
    free = shutil.disk_usage(job.folder).free
    if free < needed:
        raise StorageError(
            f"the disk of {job.folder} has {free / 2**20:.1f} MiB free, and two checkpoints need "
            f"{needed / 2**20:.1f} MiB; free some space, then the same command continues from the last finished epoch"
        )


def run_distributed_trial(
    config: dict[str, Any], num_workers: Workers, resources: dict[str, float], storage: Path
) -> None:
    """Tune trainable of a training with several workers: the light driver that waits for them."""
    try:
        train_distributed(config, num_workers, resources, storage)
    except StorageError as error:
        tune.report({FULL_DISK: str(error)})
    except CrowdedError as error:
        tune.report({CROWDED: str(error)})
    else:
        tune.report({"ended": 1})


def train_distributed(config: dict[str, Any], num_workers: Workers, resources: dict[str, float], storage: Path) -> None:
    """A TorchTrainer whose workers run the job of `config`; gloo on CPUs, nccl on GPUs.

    Ray writes to `storage`, or to a folder of this machine where not all machines see that. The reason of a training
    that fails is in its folder. Raises StorageError where the disk is full, CrowdedError where the machine stayed low
    on memory.
    """
    job = job_of(config["job"])
    folder = training_folder(job, config["storage"])
    storage, name = folder.ray_folder or storage, f"{job.kind}-{Path(job.folder).name}"
    trainer = ray.train.torch.TorchTrainer(
        _train_loop,
        train_loop_config=config,
        scaling_config=ScalingConfig(
            num_workers=num_workers, use_gpu=resources.get("GPU", 0) > 0, resources_per_worker=dict(resources)
        ),
        run_config=RunConfig(
            name=name,
            storage_path=str(storage),
            failure_config=FailureConfig(max_failures=RETRIES),
            callbacks=[_NoRetry()],
        ),
    )
    full_disk = ""
    try:
        shutil.rmtree(storage / name, ignore_errors=True)  # of a run that was killed
        full_disk = _fit(trainer).return_value
    except (TrainingFailedError, RayActorError, OutOfMemoryError) as error:
        if is_low_memory(error):
            raise CrowdedError(failure_reason(error)) from error
        folder.write_failure(failure_reason(error))
    finally:
        shutil.rmtree(storage / name, ignore_errors=True)
    if full_disk:
        raise StorageError(full_disk)


def _fit(trainer: Any) -> Any:
    """Ray Train replaces lost workers; its controller, the process that does so, is replaced here."""
    for attempts in range(RETRIES + 1):
        try:
            with _restored_interrupt():
                return trainer.fit()
        except (RayActorError, OutOfMemoryError) as error:
            if attempts == RETRIES:
                raise
            if is_low_memory(error):
                time.sleep(MEMORY_PAUSE_S)
    raise AssertionError


@contextmanager
def _restored_interrupt() -> Iterator[None]:
    """Ray Train replaces the handler of Ctrl-C, ends in SystemExit, and never restores it: undo all three."""
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
    """One rank of a DDP training; the message of a full disk, or the empty string. After each epoch rank 0, which alone
    writes, tells all ranks whether it goes on: they would wait for it."""
    folder = training_folder(job_of(config["job"]), config["storage"])
    writes = ray.train.get_context().get_world_rank() == 0
    if config["job"]["recipe"]["cluster"]["gpus_per_worker"]:
        torch.cuda.set_device(ray.train.torch.get_device())
    full_disk, trains = "", False

    def notify(metrics: dict[str, float]) -> None:
        folder.publish()
        if not broadcast_from_rank_zero(True):
            raise _RankZeroEndedError
        ray.train.report(metrics)
        if ray.train.get_preemption_info():  # the same on all ranks
            raise LeavingError(LEFT)

    try:
        with _alone_in(folder.path) if writes else nullcontext():
            # files downloaded before rank 0 is alone could be of an earlier attempt
            if not broadcast_from_rank_zero(True):
                return ""
            with folder.localised_job() as job:
                if writes:
                    check_disk_space(job)
                    check_starting_point(job)
                if not broadcast_from_rank_zero(load_if_complete(folder.path) is None):
                    return ""
                trains = True
                run_any(job, notify, open_stream=stream_opener(job))
    except _RankZeroEndedError:
        return ""
    except StorageError as error:
        if not writes:
            raise
        full_disk = str(error)
    except ProserError as error:
        # a TrainingError all ranks meet, or rank 0 after the last gradients
        others_wait = not isinstance(error, TrainingError)
        if writes or others_wait:
            folder.write_failure(str(error))
        if others_wait and (trains or not writes):
            raise  # Ray ends the others
    broadcast_from_rank_zero(False)
    return full_disk


class _NoRetry(UserCallback):
    """Ends a training by an error that another attempt would meet again: Ray does not retry what a callback raises."""

    def after_exception(self, run_context: Any, worker_exceptions: dict[int, Exception]) -> None:
        for error in worker_exceptions.values():
            if isinstance(error, ProserError) and not isinstance(error, StorageError):
                raise error


class _RankZeroEndedError(Exception):
    """Rank 0 has ended its training."""
