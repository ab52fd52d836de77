"""The one way to run a job of any kind, and how a process does so alone."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch import nn

from proser_core.data.tasks import OpenStream
from proser_core.errors import ProserError, StorageError, first_line
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.generative.own_network import TaskShape
from proser_core.jobs.own_networks.spec import OWN, OwnJob
from proser_core.jobs.own_networks.worker import train_files
from proser_core.jobs.spec import Job, write_failure
from proser_core.jobs.starting_point import check_weights, delete_changed_checkpoint
from proser_core.jobs.worker import run_job
from proser_core.learning.fit import Metrics
from proser_core.store.lock import exclusive_training


def run_any(job: Job, notify: Callable[[Metrics], None], open_stream: OpenStream = lambda stored: stored) -> None:
    """As `run_job`, for a job of any kind. Raises ConfigError for a network that this process knows nothing of."""
    if not isinstance(job, OwnJob):
        run_job(job, notify, open_stream)
        return
    network = OWN_NETWORKS[job.network]
    parts = {OWN_NETWORKS[name]: Path(path) for name, path in job.parts.items()}

    def load_parts(shape: TaskShape, device: torch.device) -> dict[str, nn.Module]:
        restored = {part.name: part.restored(shape, part.schedules[job.schedule], path) for part, path in parts.items()}
        for part in restored.values():  # in the memory in which `train_own` leaves it: kernels round by it
            part.to(device, memory_format=torch.channels_last).requires_grad_(False)  # type: ignore[call-overload]
        return restored

    train_files(job, network, network.schedules[job.schedule], load_parts, notify, open_stream)


def train_alone(job: Job, notify: Callable[[Metrics], None]) -> str:
    """Train in this process alone; why that failed, which is then in the job's folder, or an empty string. Raises
    StorageError where the disk is full: no other training would end either."""
    try:
        check_weights(job)
        run_any(job, notify)
    except StorageError:
        raise
    except (ProserError, torch.OutOfMemoryError) as error:
        out_of_memory = isinstance(error, torch.OutOfMemoryError)
        remedy = "Use another machine" if job.kind == OWN else f"Use a smaller {job.kind}.batch_size"
        reason = f"{first_line(error)} {remedy}" if out_of_memory else str(error)
        write_failure(Path(job.folder), reason)
        return reason
    return ""


def train_in_turn(jobs: Sequence[Job], max_seconds: float) -> Iterator[Path]:
    """Train alone, one after the other, for at most `max_seconds` (0: no limit), and yield the folder of each that has
    finished. Raises as `train_alone`."""
    began, threads = time.monotonic(), torch.get_num_threads()
    for job in jobs:
        if max_seconds and time.monotonic() - began >= max_seconds:
            return
        folder = Path(job.folder)
        with exclusive_training(folder):
            delete_changed_checkpoint(folder)
            try:
                failed = train_alone(job, lambda metrics: None)
            finally:
                torch.set_num_threads(threads)  # a training takes its own number of them
        if not failed:
            yield folder
