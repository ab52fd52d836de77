"""What a command takes before it works, in CPU seconds, so that a busy machine does not matter much."""

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table, Target
from benchmarks.harness.timing import spread
from benchmarks.workflow.commands import cost_of

LIMIT = 1.5
COMMANDS = {
    "--help": 0.5,
    "run digits --help": LIMIT,
    "run digits --help-all": LIMIT,
    "predict --help": LIMIT,
    "models --help": LIMIT,
    "promote --help": LIMIT,
    "rollback --help": LIMIT,
    "list": LIMIT,
    "list recipes": LIMIT,
    "list methods": LIMIT,
}
"""Of each that trains nothing and asks no server, the most CPU seconds that it should take."""


def run(settings: Settings) -> Report:
    """The first call of each warms the file cache and the compiled modules."""
    rows, targets = [], []
    for command, most in COMMANDS.items():
        costs = [cost_of(*command.split()) for _ in range(settings.rounds + 1)][1:]
        cpu = spread([cost.cpu for cost in costs])
        rows.append((f"`proser {command}`", *cpu))
        targets.append(Target(f"CPU seconds of `proser {command}`", cpu[0], most, at_least=False, unit="s"))
    return Report([Table("CPU seconds of commands", ("command", "median", "q1", "q3"), rows)], targets)
