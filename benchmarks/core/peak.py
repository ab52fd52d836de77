"""How much of the machine's bf16 convolution peak a training step reaches, and where the rest goes."""

from collections.abc import Callable

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Cell, Report, Table, Target
from benchmarks.harness.timing import alternate, on_threads, seconds_of, spread
from benchmarks.variants.convolutions import Convolution, Shape, batch_sizes, best_seconds, shapes
from benchmarks.variants.setups import closed_set_step, one_batch, our_step
from proser_core.titles import counted

CE, PROSER = "cross-entropy step", "PROSER step"


def run(settings: Settings) -> Report:
    """Peak and share of it by number of threads, then a breakdown with the last of them."""
    rows: list[tuple[Cell, ...]] = []
    targets, tables = [], []
    for threads in settings.thread_counts:
        with on_threads(threads):
            layers = _layers(settings)
            tables.append(_layer_table(layers, settings, threads))
            for name, measured in _shares(settings, layers).items():
                rows.append((name, threads, *measured))
                what = f"share of the measured convolution peak, {name}, {threads} thread{'s' if threads > 1 else ''}"
                targets.append(Target(what, measured[-2], 70, unit="%"))
    with on_threads(settings.thread_counts[-1]):
        tables += [_profile_table(name, step, settings) for name, step in _steps(settings).items()]
    columns = (
        "step",
        "threads",
        "GFLOP",
        "images/s",
        "GFLOP/s",
        "q1",
        "q3",
        "peak GFLOP/s",
        "% of peak",
        "% of cached peak",
    )
    note = "Peak: the best of the network's convolutions at the step's batch; cached: at a quarter of it."
    achieved = Table("bf16 training steps against the convolution peak", columns, rows, (note,))
    return Report([achieved, *tables], targets)


def _shares(settings: Settings, layers: dict[Shape, list[float]]) -> dict[str, tuple[float, ...]]:
    """GFLOP, images a second, GFLOP/s with its quartiles, the peak, and the shares of it and of the cached one."""
    steps, shares = _steps(settings), {}
    for name, seconds in alternate(steps, settings).items():
        flops, peak, cached = _flops(steps[name]), _peak(layers, 0), _peak(layers, 1)
        median, low, high = spread([flops / each / 1e9 for each in seconds])
        images = settings.batch_size / spread(seconds)[0]
        shares[name] = (flops / 1e9, images, median, low, high, peak, 100 * median / peak, 100 * median / cached)
    return shares


def _peak(layers: dict[Shape, list[float]], size: int) -> float:
    return max(rates[size] for rates in layers.values())


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
    peak = _peak(layers, 0)
    counts = {shape: shapes(settings).count(shape) for shape in layers}
    work = sum(shape.flops * count for shape, count in counts.items())
    rows = [
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
    rows: list[tuple[Cell, ...]] = [
        (event.key, event.count, microseconds / 1000, 100 * microseconds / sum(times))
        for microseconds, event in longest
    ]
    where = settings.device if on_gpu else counted(torch.get_num_threads(), "thread")
    return Table(f"Where a {name} spends its time, {where}", ("operation", "calls", "ms", "%"), rows)
