"""How much of the machine's bf16 convolution peak a training step reaches, and where the rest goes."""

from collections.abc import Callable

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.convolutions import Convolution, Shape, batch_sizes, best_seconds, shapes
from benchmarks.settings import Settings
from benchmarks.setups import closed_set_step, one_batch, our_step
from benchmarks.tables import Report, Table, Target
from benchmarks.timing import alternate, spread

CE, PROSER = "cross-entropy step", "PROSER step"


def run(settings: Settings) -> Report:
    """Peak and share of it by number of threads, then a breakdown with the last of them."""
    rows, targets, tables = [], [], []
    for threads in settings.thread_counts:
        torch.set_num_threads(threads)
        layers = _layers(settings)
        peak, cached = (max(rates[size] for rates in layers.values()) for size in (0, 1))
        steps = _steps(settings)
        samples = alternate(steps, settings)
        for name, step in steps.items():
            flops = _flops(step)
            rates = [flops / seconds / 1e9 for seconds in samples[name]]
            median, low, high = spread(rates)
            images = settings.batch_size / spread(samples[name])[0]
            rows.append(
                (
                    name,
                    threads,
                    flops / 1e9,
                    images,
                    median,
                    low,
                    high,
                    peak,
                    100 * median / peak,
                    100 * median / cached,
                )
            )
            what = f"share of the measured convolution peak, {name}, {threads} thread{'s' if threads > 1 else ''}"
            targets.append(Target(what, 100 * median / peak, 70, unit="%"))
        tables.append(_layer_table(layers, peak, settings, threads))
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
    return Report(
        [achieved, *tables, *(_profile_table(name, step) for name, step in _steps(settings).items())], targets
    )


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


def _layer_table(layers: dict[Shape, list[float]], peak: float, settings: Settings, threads: int) -> Table:
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
    return Table(f"Convolutions alone, forward and backward, {threads} thread(s)", columns, rows, (note,))


def _profile_table(name: str, step: Callable[[], None], most: int = 14) -> Table:
    """Share of self time by operation in one profiled step."""
    step()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        step()
    events = sorted(profiled.key_averages(), key=lambda event: -event.self_cpu_time_total)
    total = sum(event.self_cpu_time_total for event in events)
    rows = [
        (event.key, event.count, event.self_cpu_time_total / 1000, 100 * event.self_cpu_time_total / total)
        for event in events[:most]
    ]
    threads = torch.get_num_threads()
    return Table(f"Where a {name} spends its time, {threads} thread(s)", ("operation", "calls", "ms", "%"), rows)
