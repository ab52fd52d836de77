"""Images that Ray Data decodes while a network trains against images in memory: memory, and images a second.

Each variant has a process of its own, which trains on one thread and decodes in one task.
"""

import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
import torch
from PIL import Image

from benchmarks.harness.process_memory import memory
from benchmarks.harness.processes import answer_of
from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table
from benchmarks.variants.our_step import our_step
from benchmarks.variants.setups import NUM_KNOWN, images, training_batches
from pipelines.cluster.cluster import Cluster
from pipelines.cluster.streaming import RayImages
from pipelines.storage.storage import Storage
from proser_core.config import ClusterConfig
from proser_core.data.augmentation.batches import BatchSlice
from proser_core.data.image_sets import ImageSource
from proser_core.data.readers.image_folders import FolderLayout
from proser_core.data.stored import StoredImages
from proser_core.data.tasks import Labelled

ON_DISK, SIZE = 128, 64  # pixels of a JPEG file, and of the image that is trained on
TRAINED_STEPS = 12


class Cost(NamedTuple):
    """What a variant takes in an epoch of batches without training, the trainer and Ray apart; and images per second of
    training steps."""

    megabytes: float
    ray_megabytes: float
    milliseconds: float
    ray_milliseconds: float
    rate: float
    training_rate: float


def run(settings: Settings) -> Report:
    """Sets of one, two and four times as many images."""
    rows: list[Any] = []
    counts = (300, 600) if settings.quick else (5_000, 10_000, 20_000)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for count in counts:
            _write(place, settings, count)
            rows += [(count, "in memory", *_cost(place, settings, False))]
            rows += [(count, "streamed", *_cost(place, settings, True))]
    columns = ("images", "", "MB", "MB, Ray", "CPU ms/image", "CPU ms/image, Ray", "images/s", "images/s, training")
    note = (
        f"JPEG files of {ON_DISK} pixels, brought to {SIZE}; batches of {settings.batch_size}, one thread that trains "
        "in bf16 and one task that decodes. Peak memory (shared pages in proportion), CPU and rate are of an epoch of "
        "batches without training; Ray is all of its processes beside the trainer."
    )
    return Report([Table("Streamed images and images in memory", columns, rows, (note,))])


def _write(place: Path, settings: Settings, count: int) -> None:
    """An image folder that holds `count` images, their places, and their pixels."""
    pixels = np.asarray(images(Settings(data_dir=settings.data_dir), min(count, 7_500))[0].images)
    for number in range(count):
        path = place / "train" / f"class {number % NUM_KNOWN}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        (place / "test" / path.parent.name).mkdir(parents=True, exist_ok=True)
        if not path.exists():
            image = Image.fromarray(pixels[number % len(pixels)])
            image.resize((ON_DISK, ON_DISK), Image.Resampling.BICUBIC).save(path, quality=90)
    found = FolderLayout().index(place, "train", size=SIZE)
    assert isinstance(found.images, StoredImages)
    found.images.save(place, "train")
    decoded = np.lib.format.open_memmap(place / "images.npy", "w+", np.uint8, (count, SIZE, SIZE, 3))
    for start, batch in zip(range(0, count, 256), found.images.batches(np.arange(count), 256), strict=True):
        decoded[start : start + len(batch)] = batch
    decoded.flush()
    np.save(place / "targets.npy", found.labels)


def _cost(place: Path, settings: Settings, streamed: bool) -> Cost:
    """Memory at its peak, CPU time per image, and rates, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    answers, begin, looked = context.Queue(), context.Event(), context.Event()
    process = context.Process(target=_serve, args=(place, settings, streamed, begin, looked, answers))
    process.start()
    peaks: list[tuple[float, float]] = [(0.0, 0.0)]

    def look() -> None:
        if begin.is_set():
            peaks.append(_memory(process.pid or 0))

    own, beside, rate = answer_of([process], answers, look)
    look()  # an epoch may be shorter than the pause between two looks
    looked.set()
    training_rate = answer_of([process], answers)
    process.join()
    megabytes, ray_megabytes = map(max, zip(*peaks, strict=True))
    return Cost(megabytes, ray_megabytes, own, beside, rate, training_rate)


def _memory(pid: int) -> tuple[float, float]:
    """MB of a process and of those that it started, shared pages in proportion."""
    beside = 0.0
    for child in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(OSError, KeyError):  # it has just ended
            beside += memory(child.pid)[1]
    return memory(pid)[1], beside


def _serve(place: Path, settings: Settings, streamed: bool, begin: Any, looked: Any, answers: Any) -> None:
    """Take an epoch of batches, then train on some, in this process."""
    torch.set_num_threads(1)
    source: np.ndarray | ImageSource = np.load(place / "images.npy", mmap_mode="r")
    if streamed:
        Cluster(ClusterConfig(), Storage(place)).connect()
        source = RayImages(StoredImages.load(place, "train", SIZE), tasks=1)
    batches = training_batches(settings, Labelled(source, np.load(place / "targets.npy")))
    list(islice(batches.epoch(0), 2))  # starts what decodes
    begin.set()
    before, count = _cpu_seconds(), batches.steps_per_epoch * settings.batch_size
    rate = _rate(batches.epoch(1), settings.batch_size)
    own, beside = (1000 * (after - start) / count for after, start in zip(_cpu_seconds(), before, strict=True))
    answers.put((own, beside, rate))
    looked.wait()
    step = our_step(settings, bf16=True)
    training = batches.epoch(2)
    for batch in islice(training, 2):
        step(batch)
    answers.put(_rate(islice(training, TRAINED_STEPS), settings.batch_size, step))


def _cpu_seconds() -> tuple[float, float]:
    """Of this process, and of those that it started and that live."""
    beside = 0.0
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            beside += sum(child.cpu_times()[:2])
    return time.process_time(), beside


def _rate(batches: Iterator[BatchSlice], size: int, use: Callable[[BatchSlice], None] = lambda batch: None) -> float:
    """Images per second of batches that are each used."""
    start, count = time.perf_counter(), 0
    for batch in batches:
        use(batch)
        count += size
    return count / (time.perf_counter() - start)
