"""Trainings of heads on embeddings, one after the other in this process: each is shorter than a worker's start."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from proser_core.errors import ProserError, StorageError
from proser_core.jobs.spec import Job, write_failure
from proser_core.jobs.starting_point import check_starting_point
from proser_core.jobs.worker import run_job
from proser_core.store.lock import exclusive_training


def run_here(jobs: Sequence[Job], max_seconds: float) -> Iterator[Path]:
    """Train for at most `max_seconds` (0: no limit), and yield the folder of each that has finished; the reason of one
    that fails is in its folder. Raises StorageError where the disk is full."""
    began, threads = time.monotonic(), torch.get_num_threads()
    for job in jobs:
        if max_seconds and time.monotonic() - began >= max_seconds:
            return
        folder = Path(job.folder)
        with exclusive_training(folder):
            try:
                check_starting_point(job)
                run_job(job, lambda metrics: None)
            except StorageError:
                raise
            except ProserError as error:
                write_failure(folder, str(error))
                continue
            finally:
                torch.set_num_threads(threads)  # a training takes its own number of them
        yield folder
