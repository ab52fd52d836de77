"""How time grows with what a user may raise: known classes, dummies, training images."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table, comparison
from benchmarks.harness.timing import Samples, alternate, on_threads
from benchmarks.variants.our_step import our_step
from benchmarks.variants.setups import NUM_DUMMIES, NUM_KNOWN, images, one_batch, training_batches
from proser_core.data.augmentation.batches import TrainingBatches


def run(settings: Settings) -> Report:
    """One table per quantity; every ratio is against the paper's value or the smallest."""
    with on_threads(max(settings.thread_counts)):
        measured = (_classes, _dummies, _images)
        return Report([measure(settings) for measure in measured])


def _classes(settings: Settings) -> Table:
    variants: dict[str, Callable[[], object]] = {}
    for count in (NUM_KNOWN, 100, 1000):
        step, batch = our_step(settings, bf16=True, num_known=count), one_batch(settings, num_known=count)
        variants[f"K = {count}"] = partial(step, batch)
    return comparison("A step against the number of known classes K", alternate(variants, settings), f"K = {NUM_KNOWN}")


def _dummies(settings: Settings) -> Table:
    variants: dict[str, Callable[[], object]] = {}
    for count in (1, NUM_DUMMIES, 15, 100):
        step, batch = our_step(settings, bf16=True, num_dummies=count), one_batch(settings)
        variants[f"C = {count}"] = partial(step, batch)
    return comparison("A step against the number of dummies C", alternate(variants, settings), f"C = {NUM_DUMMIES}")


def _images(settings: Settings) -> Table:
    """The data part of a step; the rest of a step does not know how many images there are."""
    variants: dict[str, Callable[[], object]] = {}
    steps: dict[str, int] = {}
    counts = (32, 64) if settings.quick else (1_000, 10_000, 50_000)
    for count in counts:
        batches = training_batches(settings, images(replace(settings, data_dir=None), count)[0])
        name = f"{count} images, {batches.steps_per_epoch} batches"
        steps[name] = batches.steps_per_epoch
        variants[name] = partial(_epoch, batches)
    epochs = alternate(variants, settings)
    samples: Samples = {name: [seconds / steps[name] for seconds in values] for name, values in epochs.items()}
    return comparison("Data of one batch against the number of images", samples, next(iter(samples)))


def _epoch(batches: TrainingBatches) -> None:
    for _ in batches.epoch(0):
        pass
