"""Stage report of a sweep: figures and tables over points and class splits, as files that people look at."""

from collections.abc import Sequence
from pathlib import Path

from pipelines.reports.report_files import write_report
from pipelines.workflow.stages.tabulate import tabulate
from pipelines.workflow.training import TrainedSplit
from proser_core.jobs.selection import Row


def report_sweep(
    splits: Sequence[TrainedSplit], trials: list[Row], spaces: Sequence[str], trial_folders: Path, folder: Path
) -> None:
    """Write the report over all class splits."""
    write_report(tabulate(splits, trials, spaces, trial_folders), splits[0].recipe, folder)
