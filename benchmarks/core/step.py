"""One fine-tune step: ours against the released form, at the same precision and memory layout.

Beside it one pretraining step, by the optimizer.
"""

from benchmarks.harness.operations import OperationCount, count_kernels
from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table, Target, comparison
from benchmarks.harness.timing import Samples, alternate, on_threads, ratios, spread
from benchmarks.variants.setups import closed_set_step, one_batch, our_step, released_step
from pipelines.recipes.schedules import fast, short

OURS, RELEASED = "ours", "released form"
SGD, MUON = "SGD, as schedule short", "Muon, as schedule fast"
MOST_KERNELS = 350


def run(settings: Settings) -> Report:
    """Ratios by precision and number of threads, by optimizer, and what each form asks of the device."""
    tables, targets = [], []
    for bf16 in (True, False):
        for threads in settings.thread_counts:
            where = f"{_precision(bf16)}, {_threads(settings, threads)}"
            samples = _measure(settings, bf16, threads)
            tables.append(comparison(f"Step of {settings.batch_size} images, {where}", samples, RELEASED))
            ratio = spread(ratios(samples, RELEASED, OURS))[0]
            targets.append(Target(f"step against the released form, {where}", ratio, 1.5))
    size = settings.batch_size // 2  # the schedules' 64
    for bf16 in (True, False):
        title = f"Pretraining step of {size} images, {_precision(bf16)}, {_threads(settings, 1)}"
        tables.append(comparison(title, _measure_optimizers(settings, bf16, size), SGD))
    counts = operation_counts(settings)
    tables += [_count_table(counts), _kinds_table(counts[OURS])]
    targets.append(
        Target("kernel-like operations of a step", counts[OURS].num_kernels, MOST_KERNELS, at_least=False, unit="")
    )
    targets.append(Target("host reads of a step", counts[OURS].num_host_reads, 0, at_least=False, unit=""))
    return Report(tables, targets)


def _precision(bf16: bool) -> str:
    return "bf16" if bf16 else "fp32"


def _threads(settings: Settings, threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}" if settings.device == "cpu" else settings.device


def _measure(settings: Settings, bf16: bool, threads: int) -> Samples:
    batch, ours, released = one_batch(settings), our_step(settings, bf16), released_step(settings, bf16)
    variants = {OURS: lambda: ours(batch), RELEASED: lambda: released(batch.images, batch.targets)}
    with on_threads(threads):
        return alternate(variants, settings)


def _measure_optimizers(settings: Settings, bf16: bool, size: int) -> Samples:
    batch, variants = one_batch(settings, batch_size=size), {}
    for name, config in {SGD: short(), MUON: fast()}.items():
        step = closed_set_step(settings, bf16, config)
        variants[name] = lambda step=step: step(batch)
    with on_threads(1):
        return alternate(variants, settings)


def operation_counts(settings: Settings) -> dict[str, OperationCount]:
    """Operations of one bf16 step of each form, after a first one that creates the momentum."""
    batch, ours, released = one_batch(settings), our_step(settings, True), released_step(settings, True)
    ours(batch)
    released(batch.images, batch.targets)
    return {
        OURS: count_kernels(lambda: ours(batch)),
        RELEASED: count_kernels(lambda: released(batch.images, batch.targets)),
    }


def _count_table(counts: dict[str, OperationCount]) -> Table:
    rows = [(name, count.num_kernels, count.num_host_reads) for name, count in counts.items()]
    columns = ("variant", "kernel-like operations", "host reads")
    return Table("What a bf16 step asks of the device", columns, rows)


def _kinds_table(count: OperationCount) -> Table:
    rows = [(name.removeprefix("aten::"), calls) for name, calls in count.kernels.most_common(12)]
    return Table("Our most frequent operations in a bf16 step", ("operation", "calls"), rows)
