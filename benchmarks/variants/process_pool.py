"""A bare pool of processes that carries out the trainings of a sweep: no Ray, no tracking, no scores."""

import multiprocessing
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

from proser_core.config import Recipe, to_json
from proser_core.jobs.probe import StepCost, measure_step
from proser_core.jobs.spec import Job
from proser_core.jobs.worker import run_job


def pool_seconds(jobs: Sequence[Job], place: Path, workers: int, niceness: int = 0) -> float:
    """From the start of a pool to the last manifest that it has written, below a folder of its own."""
    own = [replace(job, folder=str(place / Path(job.folder).name)) for job in jobs]
    start = time.perf_counter()
    with _pool(workers, niceness) as pool:
        list(pool.map(_train, own))
    return time.perf_counter() - start


def cost_in_pool(recipe: Recipe, workers: int, niceness: int = 0) -> StepCost:
    """A fine-tune's slowest step in a pool that is that busy, by the probe that `proser sweep` plans with."""
    with _pool(workers, niceness) as pool:
        costs = [pool.submit(measure_step, "finetune", to_json(recipe)) for _ in range(workers)]
        return max((cost.result() for cost in costs), key=lambda cost: cost.step_seconds)


def _pool(workers: int, niceness: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), os.nice, (niceness,))


def _train(job: Job) -> None:
    run_job(job, lambda metrics: None)
