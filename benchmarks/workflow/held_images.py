"""What processes that train on one prepared task hold of its images: in common, and each for itself."""

import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.harness.process_memory import MEGABYTE, mapped, memory
from benchmarks.harness.processes import answer_of
from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Cell, Table, Target
from benchmarks.variants.setups import training_batches
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.tasks import TASK_PARTS, Labelled, OpenSetTask
from proser_core.jobs.probe import NORMALISATION

WORKERS = (1, 2, 4)


def held_once(settings: Settings, place: Path) -> tuple[Table, list[Target]]:
    """Memory of one, two and four processes on random images, once each has read all, and then drawn a batch."""
    task = place / "task"
    _save(task, settings.image_size, (64, 32, 32, 64) if settings.quick else (20_000, 5_000, 5_000, 20_000))
    data = sum((task / f"{part}_images.npy").stat().st_size for part in TASK_PARTS) / MEGABYTE
    held = {workers: _held(settings, task, workers) for workers in WORKERS}
    rows: list[tuple[Cell, ...]] = [(workers, data, *held[workers]) for workers in WORKERS]
    columns = (
        "workers",
        "MB of images on disk",
        "MB of them in memory",
        "MB of tables of crops",
        "MB of all processes",
    )
    note = (
        "Pages that processes share count once. Tables of crops: what they hold more once each has padded and mirrored "
        "its training images. All processes: with Python and torch."
    )
    images, tables = ((held[WORKERS[-1]][i] - held[1][i]) / (WORKERS[-1] - 1) / data for i in (0, 1))
    what = "share of the prepared images that a further worker holds"
    targets = [Target(what, images, 0.1, False, ""), Target(f"{what}, in its table of crops", tables, 0.1, False, "")]
    return Table("Processes that train on the same prepared images", columns, rows, (note,)), targets


def _save(folder: Path, size: int, counts: tuple[int, ...]) -> None:
    """Random images in the files of a task."""
    draw = np.random.default_rng(0)
    train, val, development, test = (
        Labelled(draw.integers(0, 256, (count, size, size, 3), dtype=np.uint8), np.full(count, target))
        for count, target in zip(counts, (0, 0, 1, 0), strict=True)
    )
    split = ClassSplit(known=(0,), unknown=(1,), settings=(1,))
    classes = np.zeros(counts[-1], np.int64)
    OpenSetTask(split, ("one",), train, val, development, test, classes, *NORMALISATION).save(folder)


def _held(settings: Settings, task: Path, workers: int) -> tuple[float, float, float]:
    """MB of mapped images, of tables of crops, and in all, summed over so many processes."""
    context = multiprocessing.get_context("spawn")
    ready, draw, end = context.Queue(), context.Event(), context.Event()
    processes = [
        context.Process(target=_serve, args=(settings, task, ready, draw, end), daemon=True) for _ in range(workers)
    ]
    for process in processes:
        process.start()

    pids = [answer_of(processes, ready) for _ in processes]
    before, images = _total(pids), sum(mapped(pid, task) for pid in pids)
    draw.set()
    pids = [answer_of(processes, ready) for _ in processes]
    after = _total(pids)
    end.set()
    for process in processes:
        process.join()
    return images, after - before, after


def _total(pids: list[int]) -> float:
    return sum(memory(pid)[1] for pid in pids)


def _serve(settings: Settings, folder: Path, ready: Any, draw: Any, end: Any) -> None:
    """Read every image, and wait; then draw a batch as a training does, and wait."""
    torch.set_num_threads(1)
    task = OpenSetTask.load(folder)
    for part in TASK_PARTS:
        images = getattr(task, part).images
        for start in range(0, len(images), 256):
            images[start : start + 256].sum()
    ready.put(os.getpid())
    draw.wait()
    batches = training_batches(settings, task.train)
    next(batches.epoch(0))
    ready.put(os.getpid())
    end.wait()
