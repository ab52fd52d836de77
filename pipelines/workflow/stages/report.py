"""Stage report of a run or a sweep: its outcome as one table, and the figures and pages that people look at."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.output_files import FIGURES, TABLES
from pipelines.reports.figures.confusion import confusion_figure
from pipelines.reports.figures.scores import known_rate_curve, over_known_rate, score_histogram
from pipelines.reports.figures.style import save
from pipelines.reports.report_files import write_report
from pipelines.reports.results_page import TO_BEAT
from pipelines.reports.scores_page import SCORES_PAGE, choice_facts, compares_scores, scores_page
from pipelines.reports.spaces import OWN_SPACE
from pipelines.reports.sweep_table import SweepTable, images_title
from pipelines.workflow.stages.evaluate import CLASSIFIER, EVALUATION, TEST_SCORES, read_evaluation
from pipelines.workflow.trained_split import TrainedSplit
from proser_core import titles
from proser_core.baselines.controls import controls
from proser_core.config import CalibrationConfig, Recipe
from proser_core.data.mirroring import with_flips
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.tasks import OpenSetTask, TaskSummary
from proser_core.jobs.network_choice import trained_control
from proser_core.jobs.selection import Row
from proser_core.jobs.spec import CLASS_SPLIT, LOGITS
from proser_core.recognition.calibration import Calibration
from proser_core.recognition.logit_tables import load_logits
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scores import own_score
from proser_core.recognition.scoring import OpenSetScores
from proser_core.store.files import read_json, write_json
from proser_core.store.store import MANIFEST, Artefact
from proser_core.titles import METRICS, OWN_POINT, PROSER, percent
from tune_spaces import SpaceInfo

Infos = Mapping[str, SpaceInfo]
"""What search spaces say of themselves, by name."""


def report_sweep(
    splits: Sequence[TrainedSplit], trials: list[Row], spaces: Infos, trial_folders: Path, folder: Path
) -> None:
    """Write the report over all class splits."""
    recipe, table = splits[0].recipe, tabulate(splits, trials, spaces, trial_folders)
    write_report(table, recipe, folder, [*filter(None, [promotion_note(recipe)])])


def promotion_note(recipe: Recipe) -> str:
    """A sentence on the options of the recipe that do not concern the rows of a sweep; empty where there are none."""
    given, usual = recipe.calibration, CalibrationConfig()
    options = (each for each in ("score", "mirror", "network") if getattr(given, each) != getattr(usual, each))
    names = [f"calibration.{each}" for each in options]
    if not names:
        return ""
    return (
        f"Rows are by each method's own score, without mirrored images; {' and '.join(names)} will be used by "
        "`proser promote --best-of`."
    )


def report(
    split: TrainedSplit, trials: list[Row], evaluated: Artefact, spaces: Infos, trial_folders: Path, folder: Path
) -> None:
    """Draw the figures and write the class split, the recipe, the data fingerprint and the tables."""
    recipe, task = split.recipe, split.task
    images = OpenSetTask.load(task.path)
    evaluation = read_evaluation(evaluated)
    unmirrored = _baselines(split, images, trials, trial_folders) if recipe.calibration.mirror else []
    table = tabulate_run(recipe, images.split, trials, evaluation, spaces, unmirrored)
    classifier = OpenSetClassifier.load(evaluated.path / CLASSIFIER)
    facts = [*_selection(evaluation, table), *choice_facts(evaluation), _calibration(classifier.calibration)]
    rates, classes = classifier.known_rates, classifier.classes
    found = {"Which known rate?": rates, "Classes": classes}
    chapters = {title: each.lines() for title, each in found.items() if each is not None}
    write_report(table, recipe, folder, facts, with_flips(images.notes, recipe, flip=images.flip), chapters)
    of_model, kept = (evaluation["method"], table.images), classifier.calibration.known_rate
    if rates is not None:
        save(known_rate_curve(rates, kept, *of_model), folder / FIGURES / "known_rate")
    if classes is not None:
        save(confusion_figure(classes, *of_model), folder / FIGURES / "confusion")
    if compares_scores(evaluation):
        (folder / TABLES / SCORES_PAGE).write_text(scores_page(evaluation, images.split), encoding="utf-8")
    scores = OpenSetScores.load(evaluated.path / TEST_SCORES)
    save(score_histogram(scores, evaluation["score"]["formula"], images, *of_model), folder / FIGURES / "scores")
    if images.split.settings:
        save(over_known_rate(scores, images, *of_model), folder / FIGURES / "macro_f1_over_known_rate")
    write_json(folder / TABLES / CLASS_SPLIT, read_json(task.path / CLASS_SPLIT))
    fingerprint = {"sha256": task.digest, "files": read_json(task.path / MANIFEST)["files"]}
    counts = {"images": TaskSummary.read(task.path).counts, "known_classes": images.num_known}
    counts |= {"groups": images.groups} if images.groups else {}
    write_json(folder / TABLES / "data_fingerprint.json", fingerprint | counts)
    write_json(folder / TABLES / EVALUATION, evaluation)


def tabulate(splits: Sequence[TrainedSplit], rows: list[Row], spaces: Infos, trial_folders: Path) -> SweepTable:
    """The table of a sweep over `spaces`: the rows of its trials, and the baselines of each class split."""
    recipe, tasks = splits[0].recipe, {split.index: OpenSetTask.load(split.task.path) for split in splits}
    return SweepTable(
        recipe=recipe.name,
        spaces=dict(spaces),
        splits={index: task.split for index, task in tasks.items()},
        rows=rows,
        controls=[row for split in splits for row in _baselines(split, tasks[split.index], rows, trial_folders)],
        own=recipe.finetune,
        images=images_title(recipe.data, tasks, [split.recipe.seed for split in splits]),
        data_set=_data_set(recipe),
    )


def _baselines(split: TrainedSplit, task: OpenSetTask, rows: list[Row], trial_folders: Path) -> list[Row]:
    control = trained_control(rows, split.index, split.recipe.finetune)
    cross_entropy = load_logits(trial_folders / control["key"] / LOGITS) if control else None
    pretrained, rate = load_logits(split.pretrained.path / LOGITS), split.recipe.calibration.target_rate
    found = controls(pretrained, cross_entropy, task, rate)
    return [{"split_index": split.index, "name": name, "metrics": each.flat()} for name, each in found.items()]


def tabulate_run(
    recipe: Recipe,
    split: ClassSplit,
    rows: Sequence[Row],
    evaluation: dict[str, Any],
    spaces: Infos,
    unmirrored: Sequence[Row] = (),
) -> SweepTable:
    """The table of a run, a sweep over one space on one class split; every point is in the space, the recipe's own
    too. Points are scored by PROSER's own score, without mirrored images: where the evaluation is of mirrored ones,
    those `unmirrored` baselines that points are compared with come first."""
    space, index = recipe.space or OWN_SPACE, recipe.data.split_index
    points = [{**row, "spaces": [space]} if row["objective"] == "proser" else row for row in rows]
    others = {name: each for name, each in evaluation["methods"].items() if name not in (PROSER, OWN_POINT)}
    if recipe.calibration.reads_embeddings:
        choice = evaluation["choices"].get(PROSER)
        of_model = titles.scored(PROSER, choice["title"]) if choice else PROSER
        others = {of_model: evaluation["methods"][PROSER], **others}
        if not recipe.calibration.mirror:
            others.pop(titles.scored(PROSER, own_score(recipe).name), None)  # its row is that of the points
    if recipe.calibration.mirror:
        others = {titles.scored(name, titles.MIRRORED): metrics for name, metrics in others.items()}
    baselines = [row for row in unmirrored if row["name"] in TO_BEAT]
    baselines += [{"split_index": index, "name": name, "metrics": metrics} for name, metrics in others.items()]
    images = images_title(recipe.data, [index], [recipe.seed])
    infos = {space: spaces[space] if recipe.space else SpaceInfo()}
    splits, data_set = {index: split}, _data_set(recipe)
    return SweepTable(recipe.name, infos, splits, points, baselines, recipe.finetune, images, data_set)


def _data_set(recipe: Recipe) -> str:
    return "" if recipe.data.unknown else recipe.data.name


def _selection(evaluation: dict[str, Any], table: SweepTable) -> list[str]:
    """What chose the point without development unknowns, and what is known of unknown classes without test ones."""
    name, proxy = evaluation["point"]["name"], evaluation["proxy"]
    if proxy is not None:
        found = ", ".join(f"{METRICS[each]} {percent(proxy[f'dev/{each}'])}" for each in ("auroc", "macro_f1"))
        return [
            f"Every class is known; the fine-tune is that of the proxy, which held some classes out: {name}.",
            f"Unknown classes, on the proxy's validation images and development unknowns: {found}.",
        ]
    own = f"There was nothing to select by; the fine-tune is the recipe's own: {name}."
    untested = "There was no unknown class to test with."
    return [own] * (not table.has_development) + [untested] * (not table.settings)


def _calibration(calibration: Calibration) -> str:
    low, high = calibration.interval
    return (
        f"Calibrated on {calibration.num_images} validation images: threshold {-calibration.bias:z.4f}; "
        f"on new known images {percent(low)} to {percent(high)} % stay known (95 % confidence)."
    )
