"""Trainings on a machine that has no Ray and no MLflow: `python -m proser_core.job JOB.json OUT`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proser_core.data.splits.class_split import in_words, where
from proser_core.errors import exit_code_of
from proser_core.jobs.progress import EpochProgress

DESCRIPTION = """\
Run the pretraining, the fine-tunes and the evaluation of a JOB.json (written by `proser job`) in
this one process. What is finished is skipped, an interrupted training goes on from its last epoch:
the same command again after whatever stopped it.
"""
EPILOG = """\
OUT/results.json has every metric by training and method; `proser import OUT`, where Ray and MLflow
are, puts all into storage, tracking and registry. Exit codes: 0 clean, 1 a training failed, 2 bad
input, 130 interrupted, 143 terminated.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; the exit code is 0 clean, 1 a training failed, 2 bad input, 130 interrupted, 143 terminated."""
    parser = argparse.ArgumentParser(
        prog="python -m proser_core.job",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("job", metavar="JOB.json", type=Path, help="the trainings, as `proser job` writes them")
    parser.add_argument("out", metavar="OUT", type=Path, help="folder for weights, logits and metrics")
    parsed = parser.parse_args(arguments)
    return exit_code_of(lambda: _run(parsed.job, parsed.out))


def _run(path: Path, out: Path) -> int:
    from proser_core.jobs.job_file import read_job_file
    from proser_core.jobs.runner import RESULTS, run

    job = read_job_file(path)
    outcome = run(job, out, EpochProgress(sys.stderr))
    for line in table(outcome.results["trainings"], job.recipe.data.settings):
        print(line)
    print(f"\nTrained now: {outcome.trained}. Metrics: {out / RESULTS}. Weights and logits: {out}")
    print(f"Where Ray and MLflow are: proser import {out}, or what wrote the job, proser reproduce --import-from {out}")
    for name, reason in outcome.failures.items():
        print(f"failed: {name}: {reason}", file=sys.stderr)
    return 1 if outcome.failures else 0


def table(trainings: dict[str, Any], settings: Sequence[int | str]) -> list[str]:
    """Lines of the closing table: a row for each training and method, a column for each setting."""
    rows = [["AUROC / macro-F1, %", *map(in_words, settings)]]
    for training, entry in trainings.items():
        names = entry["methods"] or {"failed": {}}
        rows += [[f"{training}: {name}", *(_cell(metrics, n) for n in settings)] for name, metrics in names.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]


def _cell(metrics: dict[str, float], setting: int | str) -> str:
    both = [metrics.get(f"{where(setting)}/{name}") for name in ("auroc", "macro_f1")]
    return " / ".join("-" if value is None else f"{100 * value:.1f}" for value in both)


if __name__ == "__main__":
    sys.exit(main())
