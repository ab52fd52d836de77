"""How much of the machine's bf16 convolution peak a training step reaches, and where the rest goes."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Cell, Report, Table, Target
from benchmarks.harness.timing import alternate, on_threads, seconds_of, spread
from benchmarks.variants.convolutions import Convolution, Shape, batch_sizes, best_seconds, shapes
from benchmarks.variants.our_step import closed_set_step, our_step
from benchmarks.variants.setups import one_batch
from proser_core.titles import counted

CE, PROSER = "cross-entropy step", "PROSER step"


class Share(NamedTuple):
    """FLOPs of a step, how fast it is, and the percentage of the convolution peak that this is."""

    gflop: float
    images_per_second: float
    gflops: float
    low: float
    high: float
    peak: float
    of_peak: float
    of_cached_peak: float


STEP_COLUMNS = ("step", "threads", "GFLOP", "images/s", "GFLOP/s", "q1", "q3")
COLUMNS = (*STEP_COLUMNS, "peak GFLOP/s", "% of peak", "% of cached peak")


def run(settings: Settings) -> Report:
    """Peak and share of it by number of threads, then a breakdown with the last of them."""
    rows: list[tuple[Cell, ...]] = []
    targets, tables = [], []
    for threads in settings.thread_counts:
        with on_threads(threads):
            layers = _layers(settings)
            tables.append(_layer_table(layers, settings, threads))
            for name, share in _shares(settings, layers).items():
                rows.append((name, threads, *share))
                what = f"share of the measured convolution peak, {name}, {counted(threads, 'thread')}"
                targets.append(Target(what, share.of_peak, 70, unit="%"))
    with on_threads(settings.thread_counts[-1]):
        tables += [_profile_table(name, step, settings) for name, step in _steps(settings).items()]
    note = "Peak: the best of the network's convolutions at the step's batch; cached: at a quarter of it."
    achieved = Table("bf16 training steps against the convolution peak", COLUMNS, rows, (note,))
    return Report([achieved, *tables], targets)


def _shares(settings: Settings, layers: dict[Shape, list[float]]) -> dict[str, Share]:
    steps, shares = _steps(settings), {}
    peak, cached_peak = (max(rates) for rates in zip(*layers.values(), strict=True))
    for name, seconds in alternate(steps, settings).items():
        flops = _flops(steps[name])
        median, low, high = spread([flops / each / 1e9 for each in seconds])
        images = settings.batch_size / spread(seconds)[0]
        of_peak, of_cached_peak = 100 * median / peak, 100 * median / cached_peak
        shares[name] = Share(flops / 1e9, images, median, low, high, peak, of_peak, of_cached_peak)
    return shares


def _steps(settings: Settings) -> dict[str, Callable[[], None]]:
    batch, proser, plain = one_batch(settings), our_step(settings, bf16=True), closed_set_step(settings, bf16=True)
    return {CE: lambda: plain(batch), PROSER: lambda: proser(batch)}


def _flops(step: Callable[[], None]) -> int:
    """Multiplications and additions of convolutions and matrix products, forward and backward."""
    with FlopCounterMode(display=False) as counter:
        step()
    return counter.get_total_flops()


def _layers(settings: Settings) -> dict[Shape, list[float]]:
    """GFLOP/s of each convolution alone, for each batch size."""
    rates: dict[Shape, list[float]] = {}
    for shape in dict.fromkeys(shapes(settings)):
        for batch_size in batch_sizes(settings):
            convolution = Convolution(shape, batch_size, settings.torch_device)
            convolution()
            rates.setdefault(shape, []).append(convolution.flops / best_seconds(convolution, settings) / 1e9)
    return rates


def _layer_table(layers: dict[Shape, list[float]], settings: Settings, threads: int) -> Table:
    peak = max(rates[0] for rates in layers.values())
    counts = {shape: shapes(settings).count(shape) for shape in layers}
    work = sum(shape.flops * count for shape, count in counts.items())
    rows: list[tuple[Cell, ...]] = [
        (shape.name, count, 100 * shape.flops * count / work, *layers[shape], 100 * max(layers[shape]) / peak)
        for shape, count in counts.items()
    ]
    sizes = tuple(f"GFLOP/s, batch {size}" for size in batch_sizes(settings))
    bound = work / sum(shape.flops * count / layers[shape][0] for shape, count in counts.items())
    note = (
        f"All convolutions alone, one after another at batch {settings.batch_size}: {100 * bound / peak:.0f} % of peak."
    )
    columns = ("convolution", "layers", "% of FLOPs", *sizes, "% of peak")
    return Table(f"Convolutions alone, forward and backward, {counted(threads, 'thread')}", columns, rows, (note,))


def _profile_table(name: str, step: Callable[[], None], settings: Settings) -> Table:
    """Share of self time by operation in one profiled step: the device's own, where it is a GPU."""
    step()
    on_gpu = settings.device == "cuda"
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as profiled:
        step()
        seconds_of(lambda: None)  # waits for the GPU
    # a GPU's kernels are events of their own beside the operations that launched them; they would count twice
    events = [event for event in profiled.key_averages() if event.device_type == DeviceType.CPU]
    times = [event.self_device_time_total if on_gpu else event.self_cpu_time_total for event in events]
    longest = sorted(zip(times, events, strict=True), key=lambda pair: -pair[0])[:14]
    rows = [
        (event.key, event.count, microseconds / 1000, 100 * microseconds / sum(times))
        for microseconds, event in longest
    ]
    where = settings.device if on_gpu else counted(torch.get_num_threads(), "thread")
    return Table(f"Where a {name} spends its time, {where}", ("operation", "calls", "ms", "%"), rows)
