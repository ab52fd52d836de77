"""torch.compile on the step against the eager step. Compiling takes minutes: it runs only when named."""

import time

import torch

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table, comparison
from benchmarks.harness.timing import alternate, on_threads
from benchmarks.variants.setups import one_batch, our_step
from proser_core.titles import counted

EAGER, COMPILED = "eager", "torch.compile"


def run(settings: Settings) -> Report:
    """Ratios in both precisions, and how long the first compiled step took."""
    with on_threads(max(settings.thread_counts)):
        return Report([_compare(settings, bf16) for bf16 in (True, False)])


def _compare(settings: Settings, bf16: bool) -> Table:
    precision, batch = "bf16" if bf16 else "fp32", one_batch(settings)
    eager, compiled = our_step(settings, bf16), our_step(settings, bf16, wrap=torch.compile)
    start = time.perf_counter()
    try:
        compiled(batch)
    except Exception as error:  # a missing compiler, or what the compiler cannot do
        reason = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
        return Table(f"torch.compile, {precision}", ("variant", "state"), [(COMPILED, f"not measured: {reason}")])
    note = f"The first compiled step took {time.perf_counter() - start:.0f} s."
    samples = alternate({EAGER: lambda: eager(batch), COMPILED: lambda: compiled(batch)}, settings)
    return comparison(f"Step, {precision}, {counted(torch.get_num_threads(), 'thread')}", samples, EAGER, (note,))
