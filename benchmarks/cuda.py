"""The step on a GPU, captured as a graph and eager, against the released form; and the host's time to launch it."""

import time
from collections.abc import Callable
from dataclasses import replace

import torch

from benchmarks.settings import Settings
from benchmarks.setups import one_batch, our_step, released_step
from benchmarks.tables import Report, Table, comparison
from benchmarks.timing import alternate

GRAPHED, OURS, RELEASED = "ours, CUDA graph", "ours, eager", "released form"


def run(settings: Settings) -> Report:
    """Ratios in both precisions; without a GPU, a line that says so."""
    if not torch.cuda.is_available():
        return Report([Table("Step on a GPU", ("state",), [("no GPU: not measured",)])])
    gpu = replace(settings, device="cuda")
    return Report([_compare(gpu, bf16) for bf16 in (True, False)])


def _compare(settings: Settings, bf16: bool) -> Table:
    batch, ours, released = one_batch(settings), our_step(settings, bf16), released_step(settings, bf16)
    graphed = our_step(settings, bf16).graphed()
    variants = {
        GRAPHED: lambda: graphed(batch),
        OURS: lambda: ours(batch),
        RELEASED: lambda: released(batch.images, batch.targets),
    }
    samples = alternate(variants, settings, warmup=5)
    note = f"The host takes {1000 * _launch_seconds(variants[OURS]):.2f} ms to launch our step."
    title = f"Step of {settings.batch_size} images, {'bf16' if bf16 else 'fp32'}, {torch.cuda.get_device_name()}"
    return comparison(title, samples, RELEASED, (note,))


def _launch_seconds(step: Callable[[], None], steps: int = 20) -> float:
    """Median seconds until a step on an idle GPU has been launched; it has not finished then."""
    seconds = []
    for _ in range(steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return sorted(seconds)[steps // 2]
