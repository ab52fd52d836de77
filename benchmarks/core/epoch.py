"""A whole fine-tune epoch: ours as it is run, against the released form as it is run."""

import time
from collections.abc import Callable, Iterator
from itertools import islice

import torch
from torch import Tensor

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Target, comparison
from benchmarks.harness.timing import alternate, median_ratio, on_threads
from benchmarks.variants.released_form import ReleasedStep
from benchmarks.variants.setups import arithmetic, images, placeholder_net, training_batches
from benchmarks.variants.torchvision_loader import WORKER_COUNTS, loader
from proser_core.config import FinetuneConfig
from proser_core.data.tasks import Labelled
from proser_core.learning.fit import fit
from proser_core.learning.objectives import ProserObjective
from proser_core.titles import counted

OURS, RELEASED = "ours: bf16, in memory", "released form: fp32, DataLoader"
IN_OUR_LAYOUT = "released form, channels_last"


def run(settings: Settings) -> Report:
    """Ratio of whole epochs, data and statistics included."""
    with on_threads(max(settings.thread_counts)):
        return _run(settings)


def _run(settings: Settings) -> Report:
    long_enough = 6400 if settings.torch_device.type == "cuda" else 1280  # on a GPU, an epoch captures its graph too
    labelled, what = images(settings, 48 if settings.quick else long_enough)
    workers = min(WORKER_COUNTS, key=lambda workers: _trial(labelled, settings, workers))
    config = FinetuneConfig(epochs=1, batch_size=settings.batch_size)
    objective = ProserObjective(placeholder_net(settings), config, seed=0)
    batches = training_batches(settings, labelled)

    def ours() -> None:
        fit(objective, batches, config, arithmetic(settings, bf16=True), seed=0, report=lambda *_: None)

    variants: dict[str, Callable[[], object]] = {OURS: ours}
    for name, channels_last in ((RELEASED, False), (IN_OUR_LAYOUT, True)):
        variants[name] = _ReleasedEpoch(settings, labelled, workers, channels_last)
    samples = alternate(variants, settings, rounds=1 if settings.quick else 5)  # an epoch is long
    threads = counted(torch.get_num_threads(), "thread")
    note = f"{what}; {counted(workers, 'DataLoader worker')}, the fastest of {WORKER_COUNTS}; {threads}."
    title = f"Epoch of {len(labelled)} images in batches of {settings.batch_size}"
    ratio = median_ratio(samples, RELEASED, OURS)
    return Report(
        [comparison(title, samples, RELEASED, (note,))], [Target("epoch against the released form", ratio, 3.5)]
    )


class _ReleasedEpoch:
    """Per-image transforms in a DataLoader, the released step in fp32, a new optimizer every epoch."""

    def __init__(self, settings: Settings, labelled: Labelled, workers: int, channels_last: bool) -> None:
        self._net = placeholder_net(settings, channels_last=channels_last)
        self._loader = loader(labelled, settings.batch_size, workers)
        self._settings = settings

    def __call__(self, steps: int | None = None) -> None:
        step = ReleasedStep(self._net, arithmetic(self._settings, bf16=False))
        for pixels, targets in islice(self._batches(), steps):
            step(pixels, targets)

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        device = self._settings.torch_device
        return ((pixels.to(device), targets.to(device)) for pixels, targets in self._loader)


def _trial(labelled: Labelled, settings: Settings, workers: int) -> float:
    """Seconds of a few released steps, once the workers run."""
    epoch = _ReleasedEpoch(settings, labelled, workers, channels_last=False)
    epoch(1)
    start = time.perf_counter()
    epoch(2 if settings.quick else 8)
    return time.perf_counter() - start
