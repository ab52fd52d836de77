"""`python -m benchmarks.workflow.with_notes NOTES real|simulated ARGUMENT ...`: a command of `proser` that takes notes.

Below the folder NOTES, `parts.jsonl` gets a line for each part of a sweep, with when it began and ended, and
`jobs.json` the trainings that were handed over.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

REAL, SIMULATED = "real", "simulated"
PARTS, JOBS = "parts.jsonl", "jobs.json"


def main() -> int:
    """Run the command; its exit code."""
    notes, kind = Path(sys.argv[1]), sys.argv[2]
    sys.argv = ["proser", *sys.argv[3:]]
    import pipelines.cluster.cluster
    import pipelines.cluster.tune_jobs
    import pipelines.workflow.dag
    from pipelines.cli import main

    if kind == SIMULATED:
        from benchmarks.workflow.simulated_training import simulated_trial

        patch.object(pipelines.cluster.tune_jobs, "run_single_trial", simulated_trial).start()  # fails where it moved
    run_jobs = pipelines.cluster.cluster.Cluster.run_jobs

    def handed_over(cluster: Any, jobs: Any, *arguments: Any, **more: Any) -> None:
        if jobs[0].kind == "pretrain":
            return run_jobs(cluster, jobs, *arguments, **more)
        (notes / JOBS).write_text(json.dumps([job.to_json() for job in jobs]), encoding="utf-8")
        return _noted(notes, "trained", run_jobs)(cluster, jobs, *arguments, **more)

    pipelines.cluster.cluster.Cluster.run_jobs = handed_over  # type: ignore[method-assign]
    pipelines.workflow.dag.track_rows = _noted(notes, "tracked", pipelines.workflow.dag.track_rows)
    pipelines.workflow.dag.report_sweep = _noted(notes, "reported", pipelines.workflow.dag.report_sweep)
    return main()


def _noted(notes: Path, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def noting(*arguments: Any, **more: Any) -> Any:
        began = time.time()
        try:
            return function(*arguments, **more)
        finally:
            with (notes / PARTS).open("a", encoding="utf-8") as file:
                file.write(json.dumps([name, began, time.time()]) + "\n")

    return noting


if __name__ == "__main__":
    sys.exit(main())
