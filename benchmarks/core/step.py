"""One fine-tune step: ours against the released form, at the same precision and memory layout.

Also one pretraining step with SGD and with Muon, and the operations and host reads of a step.
"""

from functools import partial

from benchmarks.harness.operations import OperationCount, count_operations
from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table, Target, comparison
from benchmarks.harness.timing import Samples, alternate, median_ratio, on_threads
from benchmarks.variants.our_step import closed_set_step, our_step
from benchmarks.variants.released_form import released_step
from benchmarks.variants.setups import PRECISIONS, one_batch
from pipelines.recipes.schedules import fast, short
from proser_core.titles import counted

OURS, RELEASED = "ours", "released form"
SGD, MUON = "SGD, as schedule short", "Muon, as schedule fast"
MOST_KERNELS = 350


def run(settings: Settings) -> Report:
    """Ratios by precision and number of threads and by optimizer; what each form asks of the device."""
    tables: list[Table] = []
    targets: list[Target] = []
    for precision, bf16 in PRECISIONS.items():
        for threads in settings.thread_counts:
            where = f"{precision}, {_threads(settings, threads)}"
            samples = _measure(settings, bf16, threads)
            tables.append(comparison(f"Step of {settings.batch_size} images, {where}", samples, RELEASED))
            ratio = median_ratio(samples, RELEASED, OURS)
            targets.append(Target(f"step against the released form, {where}", ratio, 1.5))
    size = settings.batch_size // 2  # the schedules' 64
    for precision, bf16 in PRECISIONS.items():
        title = f"Pretraining step of {size} images, {precision}, {_threads(settings, 1)}"
        tables.append(comparison(title, _measure_optimizers(settings, bf16, size), SGD))
    counts = _operation_counts(settings)
    tables += [_count_table(counts), _kinds_table(counts[OURS])]
    targets.append(
        Target("kernel-like operations of a step", counts[OURS].num_kernels, MOST_KERNELS, at_least=False, unit="")
    )
    targets.append(Target("host reads of a step", counts[OURS].num_host_reads, 0, at_least=False, unit=""))
    return Report(tables, targets)


def _threads(settings: Settings, threads: int) -> str:
    return counted(threads, "thread") if settings.device == "cpu" else settings.device


def _measure(settings: Settings, bf16: bool, threads: int) -> Samples:
    batch, ours, released = one_batch(settings), our_step(settings, bf16), released_step(settings, bf16)
    variants = {OURS: lambda: ours(batch), RELEASED: lambda: released(batch.images, batch.targets)}
    with on_threads(threads):
        return alternate(variants, settings)


def _measure_optimizers(settings: Settings, bf16: bool, size: int) -> Samples:
    batch, variants = one_batch(settings, batch_size=size), {}
    for name, config in {SGD: short(), MUON: fast()}.items():
        step = closed_set_step(settings, bf16, config)
        variants[name] = partial(step, batch)
    with on_threads(1):
        return alternate(variants, settings)


def _operation_counts(settings: Settings) -> dict[str, OperationCount]:
    """Operations of one bf16 step of each form, after a first one that creates the momentum."""
    batch, ours, released = one_batch(settings), our_step(settings, True), released_step(settings, True)
    ours(batch)
    released(batch.images, batch.targets)
    return {
        OURS: count_operations(lambda: ours(batch)),
        RELEASED: count_operations(lambda: released(batch.images, batch.targets)),
    }


def _count_table(counts: dict[str, OperationCount]) -> Table:
    rows = [(name, count.num_kernels, count.num_host_reads) for name, count in counts.items()]
    columns = ("variant", "kernel-like operations", "host reads")
    return Table("What a bf16 step asks of the device", columns, rows)


def _kinds_table(count: OperationCount) -> Table:
    rows = [(name.removeprefix("aten::"), calls) for name, calls in count.kernels.most_common(12)]
    return Table("Our most frequent operations in a bf16 step", ("operation", "calls"), rows)
