"""The step on a GPU, captured as a graph and eager, against the released form; and the host's time to launch it."""

import time
from collections.abc import Callable
from dataclasses import replace

import torch

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table, Target, comparison
from benchmarks.harness.timing import Samples, alternate, median_ratio, spread
from benchmarks.variants.our_step import our_step
from benchmarks.variants.released_form import released_step
from benchmarks.variants.setups import PRECISIONS, one_batch

GRAPHED, OURS, RELEASED = "ours, CUDA graph", "ours, eager", "released form"
BOUNDS = {OURS: 3.0, RELEASED: 8.0}  # how many times as fast the graph should be


def run(settings: Settings) -> Report:
    """Ratios in both precisions; without a GPU, a line that says so."""
    if not torch.cuda.is_available():
        return Report([Table("Step on a GPU", ("state",), [("no GPU: not measured",)])], targets({}))
    gpu = replace(settings, device="cuda")
    tables: list[Table] = []
    samples: dict[str, Samples] = {}
    for precision, bf16 in PRECISIONS.items():
        samples[precision], note = _measure(gpu, bf16)
        tables += comparisons(precision, settings.batch_size, samples[precision], note)
    return Report(tables, targets(samples))


def comparisons(precision: str, batch_size: int, samples: Samples, note: str) -> list[Table]:
    """All against the released form, and the graph against the eager step, round by round."""
    title = f"Step of {batch_size} images on a GPU, {precision}"
    ours = {name: samples[name] for name in (GRAPHED, OURS)}
    return [comparison(title, samples, RELEASED, (note,)), comparison(title, ours, OURS)]


def targets(samples: dict[str, Samples]) -> list[Target]:
    """The graph against the eager step and against the released form, by precision; none of it without a GPU."""
    return [
        Target(
            f"step on a GPU, {precision}, {GRAPHED} against {slow}",
            median_ratio(samples[precision], slow, GRAPHED) if precision in samples else None,
            bound,
        )
        for precision in PRECISIONS
        for slow, bound in BOUNDS.items()
    ]


def _measure(settings: Settings, bf16: bool) -> tuple[Samples, str]:
    batch, ours, released = one_batch(settings), our_step(settings, bf16), released_step(settings, bf16)
    graphed = our_step(settings, bf16).graphed()
    variants = {
        GRAPHED: lambda: graphed(batch),
        OURS: lambda: ours(batch),
        RELEASED: lambda: released(batch.images, batch.targets),
    }
    samples = alternate(variants, settings, warmup=5)
    launch = 1000 * _launch_seconds(variants[OURS])
    return samples, f"{torch.cuda.get_device_name()}; the host takes {launch:.2f} ms to launch our eager step."


def _launch_seconds(step: Callable[[], None]) -> float:
    """Median seconds until a step on an idle GPU has been launched; it has not finished then."""
    seconds = []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return spread(seconds)[0]
