"""Stage report: the tables and figures of a run, as files that people look at."""

from pathlib import Path

from pipelines.output_files import RECIPE, RESULTS
from pipelines.reports import figures
from pipelines.reports.summary import markdown_table
from pipelines.workflow.stages.evaluate import EVALUATION, read_evaluation
from proser_core.config import Recipe, from_json, to_json
from proser_core.data.splits.class_split import ClassSplit, setting_name, where
from proser_core.data.tasks import OpenSetTask, TaskSummary
from proser_core.jobs.selection import Row
from proser_core.jobs.spec import CLASS_SPLIT, LOGITS, PROSER
from proser_core.recognition.calibration import Calibration
from proser_core.recognition.logits import load_logits
from proser_core.recognition.scoring import PlaceholderScore, score
from proser_core.store.files import read_json, write_json
from proser_core.store.store import MANIFEST, Artefact


def report(
    recipe: Recipe, task: Artefact, trials: list[Row], evaluated: Artefact, trial_folders: Path, folder: Path
) -> None:
    """Draw the figures and write the class split, the recipe, the data fingerprint and the tables."""
    images = OpenSetTask.load(task.path)
    evaluation = read_evaluation(evaluated)
    selected = evaluation["selected"]["key"]
    logits = load_logits(trial_folders / selected / LOGITS)
    for metric in ("macro_f1", "auroc"):
        places = {"development": "dev"} if len(images.development) else {}
        places |= {setting_name(setting): where(setting) for setting in images.split.settings}
        for name, place in places.items():
            figure = figures.over_points(trials, f"{place}/{metric}", selected)
            figures.save(figure, folder / "points" / f"{metric}_{name}")
        if images.split.has_openness:
            against = figures.against_openness(evaluation, images.split, metric)
            figures.save(against, folder / f"{metric}_against_openness")
    calibration = from_json(Calibration, evaluation["methods"][PROSER]["report"]["calibration"])
    score_function = PlaceholderScore(recipe.calibration.dummy_weight)
    scores = score(logits["test"], score_function, calibration)
    figures.save(figures.score_histogram(scores, score_function.formula, images), folder / "scores")
    if images.split.settings:
        figures.save(figures.over_known_rate(scores, images), folder / "macro_f1_over_known_rate")
    write_json(folder / CLASS_SPLIT, read_json(task.path / CLASS_SPLIT))
    write_json(folder / RECIPE, to_json(recipe))
    write_json(folder / "data_fingerprint.json", _fingerprint(task, images.split))
    write_json(folder / EVALUATION, evaluation)
    (folder / RESULTS).write_text(markdown_table(recipe.name, evaluation, images.split, images.notes))


def _fingerprint(task: Artefact, split: ClassSplit) -> dict[str, object]:
    manifest = read_json(task.path / MANIFEST)
    counts = TaskSummary.read(task.path).counts
    return {"sha256": task.digest, "files": manifest["files"], "images": counts, "known_classes": split.num_known}
