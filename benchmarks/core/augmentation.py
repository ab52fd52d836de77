"""An epoch of augmented batches without training: ours against torchvision's transforms."""

import time

import torch

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Target, comparison, rates
from benchmarks.harness.timing import alternate, median_ratio, on_threads
from benchmarks.variants.setups import images, training_batches
from benchmarks.variants.torchvision_loader import WORKER_COUNTS, TransformedImages, loader
from proser_core.data.tasks import Labelled
from proser_core.titles import counted

OURS, PER_IMAGE, BATCHED = "ours, in memory", "DataLoader, v2 an image", "v2 a batch (one crop for all)"


def run(settings: Settings) -> Report:
    """Seconds of one epoch of each data path; the DataLoader with its best number of workers."""
    with on_threads(max(settings.thread_counts)):
        return _run(settings)


def _run(settings: Settings) -> Report:
    labelled, what = images(settings, 64 if settings.quick else 6400)
    best = min(WORKER_COUNTS, key=lambda workers: _trial(labelled, settings, workers))
    batches, whole = training_batches(settings, labelled), TransformedImages(labelled)
    theirs = loader(labelled, settings.batch_size, best)
    epochs = iter(range(10**9))
    variants = {
        OURS: lambda: [batch.images for batch in batches.epoch(next(epochs))],
        PER_IMAGE: lambda: [pixels for pixels, _ in theirs],
        BATCHED: lambda: [whole.whole_batch(rows) for rows in torch.randperm(len(labelled)).split(settings.batch_size)],
    }
    samples = alternate(variants, settings)
    ratio = median_ratio(samples, PER_IMAGE, OURS)
    threads = counted(torch.get_num_threads(), "thread")
    note = f"{what}; {PER_IMAGE} with {counted(best, 'worker')}, the fastest of {WORKER_COUNTS}; {threads}."
    table = comparison(f"An epoch of {len(labelled)} augmented images", samples, PER_IMAGE, (note,))
    target = Target("augmentation against DataLoader + torchvision v2", ratio, 20)
    return Report([table, rates(samples, len(labelled))], [target])


def _trial(labelled: Labelled, settings: Settings, workers: int) -> float:
    """Seconds of the second epoch: by then the workers run."""
    batches = loader(labelled, settings.batch_size, workers)
    for _ in range(2):
        start = time.perf_counter()
        for _ in batches:
            pass
    return time.perf_counter() - start
