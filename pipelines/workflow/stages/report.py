"""Stage report of a run: the files of a sweep's report, and what a run alone has, as files that people look at."""

from pathlib import Path
from typing import Any

from pipelines.reports.figures.scores import over_known_rate, score_histogram
from pipelines.reports.figures.style import save
from pipelines.reports.report_files import write_report
from pipelines.reports.sweep_table import SweepTable
from pipelines.workflow.stages.evaluate import EVALUATION, read_evaluation
from pipelines.workflow.stages.tabulate import tabulate_run
from proser_core.config import Recipe, from_json
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.tasks import OpenSetTask, TaskSummary
from proser_core.jobs.selection import Row
from proser_core.jobs.spec import CLASS_SPLIT, LOGITS
from proser_core.recognition.calibration import Calibration
from proser_core.recognition.logits import load_logits
from proser_core.recognition.scores import placeholder_score
from proser_core.recognition.scoring import score
from proser_core.store.files import read_json, write_json
from proser_core.store.store import MANIFEST, Artefact
from proser_core.titles import METRICS, PROSER, percent


def report(
    recipe: Recipe, task: Artefact, trials: list[Row], evaluated: Artefact, trial_folders: Path, folder: Path
) -> None:
    """Draw the figures and write the class split, the recipe, the data fingerprint and the tables."""
    images = OpenSetTask.load(task.path)
    evaluation = read_evaluation(evaluated)
    table = tabulate_run(recipe, images.split, trials, evaluation)
    calibration = from_json(Calibration, evaluation["methods"][PROSER]["report"]["calibration"])
    facts = [*_selection(evaluation, table), _calibration(calibration)]
    write_report(table, recipe, folder, facts, images.notes)
    logits = load_logits(trial_folders / evaluation["selected"]["key"] / LOGITS)
    score_function = placeholder_score(recipe.calibration.dummy_weight)
    scores = score(logits["test"], score_function, calibration)
    save(score_histogram(scores, score_function.formula, images), folder / "scores")
    if images.split.settings:
        save(over_known_rate(scores, images), folder / "macro_f1_over_known_rate")
    write_json(folder / CLASS_SPLIT, read_json(task.path / CLASS_SPLIT))
    write_json(folder / "data_fingerprint.json", _fingerprint(task, images.split))
    write_json(folder / EVALUATION, evaluation)


def _selection(evaluation: dict[str, Any], table: SweepTable) -> list[str]:
    """What chose the point without development unknowns, and what is known of unknown classes without test ones."""
    name, proxy = evaluation["selected"]["name"], evaluation["proxy"]
    if proxy is not None:
        found = ", ".join(f"{METRICS[each]} {percent(proxy[f'dev/{each}'])}" for each in ("auroc", "macro_f1"))
        return [
            f"Every class is known. Selected on a proxy, with some classes held out: {name}.",
            f"Unknown classes, on the proxy's validation images and development unknowns: {found}.",
        ]
    own = f"There was nothing to select by; the fine-tune is the recipe's own: {name}."
    untested = "There was no unknown class to test with."
    return [own] * (not table.has_development) + [untested] * (not table.settings)


def _calibration(calibration: Calibration) -> str:
    low, high = calibration.interval
    return (
        f"Calibrated on {calibration.num_images} validation images: bias {calibration.bias:.4f}; "
        f"on new known images {percent(low)} to {percent(high)} % stay known (95 % confidence)."
    )


def _fingerprint(task: Artefact, split: ClassSplit) -> dict[str, object]:
    manifest = read_json(task.path / MANIFEST)
    counts = TaskSummary.read(task.path).counts
    return {"sha256": task.digest, "files": manifest["files"], "images": counts, "known_classes": split.num_known}
