"""torch.compile of the step against the step as training takes it: a CUDA graph on a GPU, else eager."""

import time
from typing import Any

import torch

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table, comparison
from benchmarks.harness.timing import alternate, on_threads
from benchmarks.variants.our_step import our_step
from benchmarks.variants.setups import PRECISIONS, one_batch
from proser_core.titles import counted

COMPILED = "torch.compile"


def run(settings: Settings) -> Report:
    """Ratios in both precisions, and how long the first compiled step took."""
    with on_threads(max(settings.thread_counts)):
        return Report([_compare(settings, precision) for precision in PRECISIONS])


def _compare(settings: Settings, precision: str) -> Table:
    batch, bf16 = one_batch(settings), PRECISIONS[precision]
    compiler: Any = torch.compile
    plain, compiled = our_step(settings, bf16).as_trained(), our_step(settings, bf16, wrap=compiler)
    start = time.perf_counter()
    try:
        compiled(batch)
    except Exception as error:  # a missing compiler, or what the compiler cannot do
        reason = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
        return Table(f"torch.compile, {precision}", ("variant", "state"), [(COMPILED, f"not measured: {reason}")])
    note = f"The first compiled step took {time.perf_counter() - start:.0f} s."
    name = "CUDA graph" if settings.device == "cuda" else "eager"
    samples = alternate({name: lambda: plain(batch), COMPILED: lambda: compiled(batch)}, settings, warmup=5)
    return comparison(f"Step, {precision}, {counted(torch.get_num_threads(), 'thread')}", samples, name, (note,))
