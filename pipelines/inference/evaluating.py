"""`proser evaluate`: every metric of a model on labelled images of a user's own, unknown classes among them."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.console import say, utf8_text
from pipelines.inference.labelled_folder import Scored, class_folders, score_folder, told
from pipelines.output_files import check_output, write_output
from pipelines.tracking.models import load
from proser_core.class_names import UNKNOWN
from proser_core.errors import DataError
from proser_core.recognition.metrics import KnownRanks, aupr, fpr_at_positive_rate, open_set_macro_f1
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scoring import score
from proser_core.titles import percent

TITLES = {
    "closed_set_accuracy": "closed-set accuracy",
    "known_rate": "known images that stay known",
    "known_accuracy": "known images named rightly",
    "unknown_found": "unknown images found",
    "auroc": "AUC",
    "aupr": "AUPR",
    "fpr95": "FPR at 95 % found",
    "oscr": "OSCR",
    "macro_f1": "macro-F1",
}


@dataclass(frozen=True)
class OwnMetrics:
    """Fractions; those that need known or unknown images are None where there are none."""

    num_known: int
    num_unknown: int
    metrics: dict[str, float | None]
    classes: dict[str, dict[str, float]]
    """By folder: images, share that stays known, and share named rightly."""


def evaluate_model(model_uri: str, data: Path, output: Path | None, device: str, console: Console) -> int:
    """Print the metrics, and write them as JSON; exit code 1 where images were left out.

    Raises DataError for a folder without folders of classes, or without a class that the model knows.
    """
    check_output(output, "--output", (".json",))
    model = load(model_uri)
    folders = class_folders(data)
    known = [name for name in folders if name in model.classifier.class_names]
    if not known:
        has = f"the folders {', '.join(folders)}" if folders else "no folder of a class"
        names = ", ".join(model.classifier.class_names)
        raise DataError(f"{data} has {has}; need one of a class that {model.title} knows: {names}")
    scored = score_folder(model.classifier, data, device).in_folders()
    found = own_metrics(model.classifier, scored)
    strangers = [name for name in folders if name not in known]
    for table in (_metrics(model.title, found), _classes(found, known)):
        console.print(table)
    lines = [f"counted as unknown: {', '.join(strangers)}"] if strangers else ["no folder of an unknown class"]
    if output is not None:
        about = {"model": model.title, "data": str(data), **asdict(found)}
        write_output(output, json.dumps(about, indent=1).encode())
        lines.append(f"written: {output}")
    for line in (*lines, *told(scored.failures)):
        say(console, line)
    return 1 if scored.failures else 0


def own_metrics(classifier: OpenSetClassifier, scored: Scored) -> OwnMetrics:
    """All metrics that the images allow for; images outside a known class's folder are unknown."""
    names = classifier.class_names
    targets, scores = scored.targets(names), score(scored.logits, classifier.score_function, classifier.calibration)
    is_known = targets < len(names)
    predictions = scores.predictions
    metrics: dict[str, float | None] = dict.fromkeys(TITLES)
    if is_known.any():
        correct = scores.known_predictions[is_known] == targets[is_known]
        metrics |= {
            "closed_set_accuracy": float(correct.mean()),
            "known_rate": float(scores.accepted[is_known].mean()),
            "known_accuracy": float((predictions[is_known] == targets[is_known]).mean()),
        }
    if not is_known.all():
        metrics["unknown_found"] = float((~scores.accepted[~is_known]).mean())
    if is_known.any() and not is_known.all():
        known, unknown = scores.scores[is_known], scores.scores[~is_known]
        ranks = KnownRanks.of(known, correct)
        metrics |= {
            "auroc": ranks.auroc(unknown),
            "aupr": aupr(known, unknown),
            "fpr95": fpr_at_positive_rate(known, unknown),
            "oscr": ranks.oscr(unknown),
            "macro_f1": open_set_macro_f1(predictions, targets, len(names)),
        }
    classes = _by_folder(scored, targets, predictions, len(names))
    return OwnMetrics(int(is_known.sum()), int((~is_known).sum()), metrics, classes)


def _by_folder(
    scored: Scored, targets: np.ndarray, predictions: np.ndarray, num_known: int
) -> dict[str, dict[str, float]]:
    folders = np.array(scored.folders)
    found = {}
    for folder in dict.fromkeys(scored.folders):
        rows = folders == folder
        found[folder] = {
            "images": int(rows.sum()),
            "stays_known": float((predictions[rows] < num_known).mean()),
            "right": float((predictions[rows] == targets[rows]).mean()),
        }
    return found


def _metrics(title: str, found: OwnMetrics) -> Table:
    head = f"{title}: {found.num_known} images of known classes, {found.num_unknown} of others, %"
    table = Table(title=escape(utf8_text(head)), title_justify="left", box=box.SIMPLE_HEAD, show_header=False)
    for name, value in found.metrics.items():
        table.add_row(TITLES[name], "-" if value is None else percent(value))
    return table


def _classes(found: OwnMetrics, known: list[str]) -> Table:
    table = Table("folder", box=box.SIMPLE_HEAD)
    for name in ("images", "called known, %", "right, %"):
        table.add_column(name, justify="right")
    for folder, each in found.classes.items():
        row: list[Any] = [f"{each['images']:,}", percent(each["stays_known"]), percent(each["right"])]
        table.add_row(escape(utf8_text(folder if folder in known else f"{folder} ({UNKNOWN})")), *row)
    return table
