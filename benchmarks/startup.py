"""How long `proser --help` takes, in CPU seconds, so that a busy machine does not matter."""

from benchmarks.commands import cost_of
from benchmarks.settings import Settings
from benchmarks.tables import Report, Table, Target
from benchmarks.timing import spread


def run(settings: Settings) -> Report:
    """The first call warms the file cache and the compiled modules."""
    cost_of("--help")
    costs = [cost_of("--help") for _ in range(settings.rounds)]
    rows = [(name, *spread([getattr(cost, name) for cost in costs])) for name in ("cpu", "wall")]
    table = Table("`proser --help`", ("seconds", "median", "q1", "q3"), rows)
    cpu = spread([cost.cpu for cost in costs])[0]
    return Report([table], [Target("CPU seconds of `proser --help`", cpu, 0.5, at_least=False, unit="s")])
