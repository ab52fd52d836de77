"""Two processes of one thread against one process of two: a DDP fine-tune, and a sweep's pool."""

from contextlib import ExitStack

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table, Target, comparison, rates
from benchmarks.harness.timing import Samples, median_ratio
from benchmarks.variants.step_processes import StepProcesses

ONE, SPINNING = "one process, 2 threads", "the same, OMP_WAIT_POLICY not set"
DDP, POOL = "two DDP workers, 1 thread each", "two trainings, 1 thread each"


def run(settings: Settings) -> Report:
    """Each arrangement at the same global batch."""
    if settings.device != "cpu":
        return Report([Table("Scaling on the CPU", ("variant",), [("not measured: --device is not cpu",)])])
    samples = _samples(settings)
    note = (
        "Seconds for as many images as one global batch; threads wait passively unless it says otherwise. "
        f"bf16, global batch {settings.batch_size}."
    )
    targets = [
        Target("2 DDP workers of 1 thread against 1 process of 2", median_ratio(samples, ONE, DDP), 0.9),
        Target("pool of 2 one-thread trainings against 1 process of 2", median_ratio(samples, ONE, POOL), 0.9),
    ]
    table = comparison("PROSER steps on 2 cores", samples, ONE, (note,))
    return Report([table, rates(samples, settings.batch_size)], targets)


def _samples(settings: Settings) -> Samples:
    with ExitStack() as stack:
        groups = {
            name: stack.enter_context(StepProcesses(settings, size, threads, ddp=ddp, passive=passive))
            for name, size, threads, ddp, passive in (
                (ONE, 1, 2, False, True),
                (DDP, 2, 1, True, True),
                (POOL, 2, 1, False, True),
                (SPINNING, 1, 2, False, False),
            )
        }
        for group in groups.values():
            group.steps(2)
        samples: Samples = {name: [] for name in groups}
        for _ in range(settings.rounds):
            for name, group in groups.items():
                samples[name].append(_seconds_per_batch(group, settings))
    return samples


def _seconds_per_batch(group: StepProcesses, settings: Settings) -> float:
    steps = 2 if settings.quick else 6
    return group.steps(steps) / steps * settings.batch_size / group.images_per_step
