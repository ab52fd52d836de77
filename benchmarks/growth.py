"""How time grows with what a user may raise: known classes, dummies, training and test images, thresholds."""

from collections.abc import Callable

import numpy as np

from benchmarks.settings import Settings
from benchmarks.setups import NUM_DUMMIES, NUM_KNOWN, images, one_batch, our_step, training_batches
from benchmarks.tables import Report, Table, comparison
from benchmarks.timing import Variants, alternate, on_threads
from proser_core.recognition.metrics import macro_f1_curve


def run(settings: Settings) -> Report:
    """One table for each quantity; every ratio is against the paper's value or the smallest."""
    with on_threads(max(settings.thread_counts)):
        measured = (_classes, _dummies, _images, _test_images, _thresholds)
        return Report([measure(settings) for measure in measured])


def _classes(settings: Settings) -> Table:
    variants: Variants = {}
    for count in (NUM_KNOWN, 100, 1000):
        step, batch = our_step(settings, bf16=True, num_known=count), one_batch(settings, num_known=count)
        variants[f"K = {count}"] = lambda step=step, batch=batch: step(batch)
    return comparison("A step against the number of known classes K", alternate(variants, settings), f"K = {NUM_KNOWN}")


def _dummies(settings: Settings) -> Table:
    variants: Variants = {}
    for count in (1, NUM_DUMMIES, 15, 100):
        step, batch = our_step(settings, bf16=True, num_dummies=count), one_batch(settings)
        variants[f"C = {count}"] = lambda step=step, batch=batch: step(batch)
    return comparison("A step against the number of dummies C", alternate(variants, settings), f"C = {NUM_DUMMIES}")


def _images(settings: Settings) -> Table:
    """The data part of a step; the rest of a step does not know how many images there are."""
    variants: Variants = {}
    steps: dict[str, int] = {}
    counts = (32, 64) if settings.quick else (1_000, 10_000, 50_000)
    random = Settings(settings.quick, settings.device)
    for count in counts:
        batches = training_batches(settings, images(random, count)[0])
        name = f"{count} images, {batches.steps_per_epoch} batches"
        steps[name] = batches.steps_per_epoch
        variants[name] = lambda batches=batches: [batch.images for batch in batches.epoch(0)]
    samples = alternate(variants, settings)
    samples = {name: [seconds / steps[name] for seconds in values] for name, values in samples.items()}
    return comparison("Data of one batch against the number of images", samples, next(iter(samples)))


def _test_images(settings: Settings) -> Table:
    variants: Variants = {f"{count} images": _curve_of(count, 101) for count in (1_000, 10_000, 100_000)}
    return comparison("Macro-F1 at 101 thresholds against test images", alternate(variants, settings), "1000 images")


def _thresholds(settings: Settings) -> Table:
    variants: Variants = {f"{count} thresholds": _curve_of(10_000, count) for count in (11, 101, 1_001)}
    title = "Macro-F1 of 10000 test images against thresholds"
    return comparison(title, alternate(variants, settings), "11 thresholds")


def _curve_of(count: int, num_thresholds: int) -> Callable[[], np.ndarray]:
    generator = np.random.default_rng(0)
    scores, thresholds = generator.standard_normal(count).astype(np.float32), np.linspace(-2, 2, num_thresholds)
    guesses, targets = generator.integers(0, NUM_KNOWN, count), generator.integers(0, NUM_KNOWN + 1, count)
    return lambda: macro_f1_curve(scores, guesses, targets, NUM_KNOWN, thresholds)
