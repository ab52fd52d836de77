"""An epoch of augmented batches without training: ours against torchvision's transforms."""

import time

import torch

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table, Target, comparison
from benchmarks.harness.timing import alternate, on_threads, ratios, spread
from benchmarks.variants.setups import images, training_batches
from benchmarks.variants.torchvision_loader import TransformedImages, loader
from proser_core.data.tasks import Labelled

OURS, PER_IMAGE, BATCHED = "ours, in memory", "DataLoader, v2 an image", "v2 a batch (one crop for all)"
WORKER_COUNTS = (0, 1, 2)


def run(settings: Settings) -> Report:
    """Seconds of one epoch of each data path; the DataLoader with its best number of workers."""
    with on_threads(max(settings.thread_counts)):
        return _run(settings)


def _run(settings: Settings) -> Report:
    labelled, what = images(settings, 64 if settings.quick else 6400)
    seconds = {workers: _trial(labelled, settings, workers) for workers in WORKER_COUNTS}
    best = min(seconds, key=lambda workers: seconds[workers])
    batches, whole = training_batches(settings, labelled), TransformedImages(labelled)
    theirs = loader(labelled, settings.batch_size, best)
    epochs = iter(range(10**9))
    variants = {
        OURS: lambda: [batch.images for batch in batches.epoch(next(epochs))],
        PER_IMAGE: lambda: [pixels for pixels, _ in theirs],
        BATCHED: lambda: [whole.whole_batch(rows) for rows in torch.randperm(len(labelled)).split(settings.batch_size)],
    }
    samples = alternate(variants, settings)
    ratio = spread(ratios(samples, PER_IMAGE, OURS))[0]
    note = (
        f"{what}; {PER_IMAGE} with {best} workers, the fastest of {WORKER_COUNTS}; {torch.get_num_threads()} threads."
    )
    rates = Table(
        "Images a second",
        ("variant", "median", "q1", "q3"),
        [(name, *spread([len(labelled) / value for value in values])) for name, values in samples.items()],
    )
    tables = [comparison(f"An epoch of {len(labelled)} augmented images", samples, PER_IMAGE, (note,)), rates]
    return Report(tables, [Target("augmentation against DataLoader + torchvision v2", ratio, 20)])


def _trial(labelled: Labelled, settings: Settings, workers: int) -> float:
    """Seconds of the second epoch: by then the workers run."""
    batches = loader(labelled, settings.batch_size, workers)
    for _ in range(2):
        start = time.perf_counter()
        for _ in batches:
            pass
    return time.perf_counter() - start
