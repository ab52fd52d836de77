"""`python -m benchmarks.driven EVENTS REAL|SIMULATED ARGUMENT ...`: a command of `proser` that notes the time.

EVENTS is filled with a line for each part of a sweep: its name, and when it began and ended.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REAL, SIMULATED = "real", "simulated"


def main() -> int:
    """Run the command; its exit code."""
    events, kind = Path(sys.argv[1]), sys.argv[2]
    sys.argv = ["proser", *sys.argv[3:]]
    import pipelines.cluster
    import pipelines.stages.sweep
    import pipelines.stages.sweep_report
    from pipelines.cli import main

    if kind == SIMULATED:
        from benchmarks.simulated import simulated_trial

        pipelines.cluster.run_single_trial = simulated_trial
    for module, name in (
        (pipelines.stages.sweep, "_train"),
        (pipelines.stages.sweep, "sweep"),
        (pipelines.stages.sweep, "record"),
        (pipelines.stages.sweep_report, "report"),
    ):
        setattr(module, name, _noted(events, name.strip("_"), getattr(module, name)))
    return main()


def _noted(events: Path, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def noting(*arguments: Any, **more: Any) -> Any:
        began = time.time()
        try:
            return function(*arguments, **more)
        finally:
            with events.open("a") as file:
                file.write(json.dumps([name, began, time.time()]) + "\n")

    return noting


if __name__ == "__main__":
    sys.exit(main())
