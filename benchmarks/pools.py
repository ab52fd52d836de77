"""A bare pool of processes that carries out the trainings of a sweep: no Ray, no tracking, no scores."""

import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from proser_core.jobs.spec import Job

NICENESS = 15  # of Ray's workers; what else runs on the machine then hits both alike


def pool_seconds(jobs: Sequence[Job], place: Path, workers: int, *, simulated: bool = False) -> float:
    """From the start of a pool to the last manifest that it has written, below a folder of its own."""
    own = [replace(job, folder=str(place / Path(job.folder).name)) for job in jobs]
    start = time.perf_counter()
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), os.nice, (NICENESS,)) as pool:
        list(pool.map(_simulate if simulated else _train, own))
    return time.perf_counter() - start


def _train(job: Job) -> None:
    from proser_core.jobs.worker import run_job

    run_job(job, lambda metrics: None)


def _simulate(job: Job) -> None:
    from benchmarks.simulated import simulated

    with simulated():
        _train(job)
