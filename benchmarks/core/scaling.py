"""Two processes of one thread against one process of two: a DDP fine-tune, and a sweep's pool."""

from contextlib import ExitStack

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table, Target, comparison
from benchmarks.harness.timing import Samples, ratios, spread
from benchmarks.variants.step_processes import Group

ONE, SPINNING = "one process, 2 threads", "the same, OMP_WAIT_POLICY not set"
DDP, POOL = "two DDP workers, 1 thread each", "two trainings, 1 thread each"


def run(settings: Settings) -> Report:
    """Images a second of each arrangement, at the same global batch."""
    if settings.device != "cpu":
        return Report([Table("Scaling on the CPU", ("variant",), [("not measured: --device is not cpu",)])])
    samples = _samples(settings)
    note = (
        "Seconds for as many images as one global batch; threads wait passively save where it says so. "
        f"bf16, global batch {settings.batch_size}."
    )
    rates = Table(
        "Images a second",
        ("variant", "median", "q1", "q3"),
        [(name, *spread([settings.batch_size / value for value in values])) for name, values in samples.items()],
    )
    targets = [
        Target("2 DDP workers of 1 thread against 1 process of 2", spread(ratios(samples, ONE, DDP))[0], 0.9),
        Target("pool of 2 one-thread trainings against 1 process of 2", spread(ratios(samples, ONE, POOL))[0], 0.9),
    ]
    return Report([comparison("PROSER steps on 2 cores", samples, ONE, (note,)), rates], targets)


def _samples(settings: Settings) -> Samples:
    with ExitStack() as stack:
        groups = {
            name: stack.enter_context(Group(settings, size, threads, ddp=ddp, wait_policy=policy))
            for name, size, threads, ddp, policy in (
                (ONE, 1, 2, False, "passive"),
                (DDP, 2, 1, True, "passive"),
                (POOL, 2, 1, False, "passive"),
                (SPINNING, 1, 2, False, None),
            )
        }
        for group in groups.values():
            group.steps(2)
        samples: Samples = {name: [] for name in groups}
        for _ in range(settings.rounds):
            for name, group in groups.items():
                samples[name].append(_seconds_a_batch(group, settings))
    return samples


def _seconds_a_batch(group: Group, settings: Settings) -> float:
    steps = 2 if settings.quick else 6
    return group.steps(steps) / steps * settings.batch_size / group.images_per_step
