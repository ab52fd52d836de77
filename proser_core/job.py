"""Trainings on a machine without Ray and MLflow: `python -m proser_core.job JOB.json OUT`, or a folder of such jobs."""

import argparse
import itertools
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proser_core.data.splits.class_split import in_words, where
from proser_core.errors import ConfigError
from proser_core.exit_codes import exit_code_of
from proser_core.jobs.progress import EpochProgress

if TYPE_CHECKING:
    from proser_core.jobs.job_file import JobFile

DESCRIPTION = """\
Run the pretraining, the fine-tunes and the evaluation of a JOB.json (written by `proser job`) in one
process. Finished trainings are skipped, and an interrupted one continues from its last epoch: repeat
the same command after any interruption. For a folder, every FOLDER/*/JOB.json is run, in the order of
their names, and writes to OUT next to it; with --at-once, several at a time, each in a process of its
own, which prints to log.txt. `timeout 540 python -m proser_core.job FOLDER` runs for 9 minutes.
"""
EPILOG = """\
OUT/results.json has every metric by training and method. On a machine with Ray and MLflow, `proser import
OUT` copies everything to storage, tracking and registry; of `proser reproduce --jobs`, that command with
--import-from OUT does. Exit codes: 0 clean, 1 a training failed, 2 bad input, 130 interrupted, 143
terminated.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; the exit code is 0 clean, 1 a training failed, 2 bad input, 130 interrupted, 143 terminated."""
    parser = argparse.ArgumentParser(
        prog="python -m proser_core.job",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "job",
        metavar="JOB.json",
        type=_path,
        help="the trainings, as `proser job` writes them; or a folder, as `proser reproduce --jobs` does",
    )
    parser.add_argument(
        "out", metavar="OUT", type=_path, nargs="?", help="folder for weights, logits and metrics; of a file only"
    )
    parser.add_argument(
        "--at-once", metavar="N", type=int, default=1, help="run N jobs of a folder at a time (default 1)"
    )
    parsed = parser.parse_args(arguments)
    return exit_code_of(lambda: _run_given(parsed.job, parsed.out, parsed.at_once))


def _path(word: str) -> Path:
    """Path("") would be the current folder, and `"$UNSET"` is a mistake."""
    if not word:
        raise argparse.ArgumentTypeError("got an empty path; need a file or a folder")
    return Path(word)


def _run_given(path: Path, out: Path | None, at_once: int) -> int:
    from proser_core.jobs.job_file import read_job_file
    from proser_core.jobs.job_folder import OUT, run_folder

    if at_once < 1 or (at_once > 1 and not path.is_dir()):
        raise ConfigError(
            f"got --at-once {at_once} with {path}; need 1 or more, and more than 1 only with a folder of jobs"
        )
    if path.is_dir():
        if out is not None:
            raise ConfigError(
                f"got the folder {path} with {out}; its jobs write to {OUT} next to each file, omit {out}"
            )
        return run_folder(path, at_once, _run)
    if out is None:
        raise ConfigError(f"got {path} alone; need a folder for weights, logits and metrics after it")
    return _run(read_job_file(path), out)


def _run(job: "JobFile", out: Path) -> int:
    from proser_core.jobs.runner import RESULTS, run

    outcome = run(job, out, EpochProgress(sys.stderr))
    for line in table(outcome.results["trainings"], job.recipe.data.settings):
        print(line)
    print(f"\nTrained now: {outcome.trained}. Metrics: {out / RESULTS}. Weights and logits: {out}")
    copied = shlex.quote(str(out))
    reproduction = f"the `proser reproduce --jobs` command again, with --import-from {copied} instead of --jobs"
    plain = f"proser import {copied} (of `proser reproduce --jobs`: --import-from {copied})"
    print(f"On a machine with Ray and MLflow: {reproduction if job.own_methods.names else plain}")
    for name, reason in outcome.failures.items():
        print(f"failed: {name}: {reason}", file=sys.stderr)
    return 1 if outcome.failures else 0


def table(trainings: dict[str, Any], settings: Sequence[int | str]) -> list[str]:
    """Lines of the closing table: of each training its name, which may be long, and below it a row for each method; a
    column for each setting."""
    methods = {training: entry["methods"] or {"failed": {}} for training, entry in trainings.items()}
    rows = {
        training: [[f"  {name}", *(_cell(metrics, n) for n in settings)] for name, metrics in found.items()]
        for training, found in methods.items()
    }
    header = ["AUROC / macro-F1, %", *map(in_words, settings)]
    widths = [max(map(len, column)) for column in zip(header, *itertools.chain(*rows.values()), strict=True)]

    def line(row: Sequence[str]) -> str:
        return "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])

    lines = ([training, *map(line, found)] for training, found in rows.items())
    return [line(header), *itertools.chain(*lines)]


def _cell(metrics: dict[str, float], setting: int | str) -> str:
    both = [metrics.get(f"{where(setting)}/{name}") for name in ("auroc", "macro_f1")]
    return " / ".join("-" if value is None else f"{100 * value:.1f}" for value in both)


if __name__ == "__main__":
    sys.exit(main())
