"""`proser run digits` when everything is finished already. It needs a whole run first: only by name."""

import tempfile
from pathlib import Path

from benchmarks.harness.settings import Settings
from benchmarks.harness.tables import Report, Table, Target
from benchmarks.harness.timing import spread
from benchmarks.workflow.commands import cost_of


def run(settings: Settings) -> Report:
    """A first run in an empty folder, then the same command again."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        rounds = 2 if settings.quick else 3
        first, *again = (
            cost_of("run", "digits", folder=place, MLFLOW_TRACKING_URI=f"sqlite:///{place}/mlflow.db")
            for _ in range(1 + rounds)
        )
    rows: list = [("first", first.wall, None, None), ("again", *spread([cost.wall for cost in again]))]
    table = Table("`proser run digits`, wall seconds", ("run", "median", "q1", "q3"), rows)
    seconds = spread([cost.wall for cost in again])[0]
    return Report([table], [Target("seconds of a cached `proser run digits`", seconds, 10, at_least=False, unit="s")])
