"""Run a command of `proser` that takes notes.

    python -m benchmarks.workflow.with_notes NOTES real|simulated ARGUMENT ...

In the folder NOTES, `parts.jsonl` gets a line for each part of a sweep, with when it began and ended, and `jobs.json`
the trainings that were handed over.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from proser_core.jobs.spec import Job

REAL, SIMULATED = "real", "simulated"
PARTS, JOBS = "parts.jsonl", "jobs.json"


def main() -> int:
    """Run the command; its exit code."""
    notes, kind = Path(sys.argv[1]), sys.argv[2]
    sys.argv = ["proser", *sys.argv[3:]]
    from pipelines.cli import main
    from pipelines.cluster import tune_jobs
    from pipelines.cluster.cluster import Cluster
    from pipelines.workflow import dag

    def replace(owner: Any, name: str, function: Callable[..., Any]) -> None:
        patch.object(owner, name, function).start()  # fails where it moved

    if kind == SIMULATED:
        from benchmarks.workflow.simulated_training import simulated_trial

        replace(tune_jobs, "run_single_trial", simulated_trial)
    run_jobs = Cluster.run_jobs

    def run_noted(cluster: Cluster, jobs: list[Job], *arguments: Any, **more: Any) -> None:
        if jobs[0].kind == "pretrain":
            return run_jobs(cluster, jobs, *arguments, **more)
        (notes / JOBS).write_text(json.dumps([job.to_json() for job in jobs]), encoding="utf-8")
        return _noted(notes, "trained", run_jobs)(cluster, jobs, *arguments, **more)

    replace(Cluster, "run_jobs", run_noted)
    for name, function in (("tracked", "track_rows"), ("reported", "report_sweep")):
        replace(dag, function, _noted(notes, name, getattr(dag, function)))
    return main()


def _noted(notes: Path, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a line in the notes for each call."""

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
