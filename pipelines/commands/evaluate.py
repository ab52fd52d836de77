"""`proser evaluate MODEL --data DIR`: all metrics of a model on labelled images."""

import json
import shlex
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.commands.model_options import Device, Model, chosen_device, ignored_lines, skipped_lines
from pipelines.commands.parsing import parse
from pipelines.console import TitledTable, console, say, shown
from pipelines.output_files import check_output, write_output
from pipelines.progress import ProgressBar
from proser_core.data.readers.image_files import count_images, written_to
from proser_core.errors import DataError
from proser_core.naming import UNKNOWN
from proser_core.titles import METRICS, best_marked, counted, percent

if TYPE_CHECKING:
    from pipelines.inference.folder_metrics import FolderMetrics
    from pipelines.inference.score_comparison import ScoreComparison
    from pipelines.tracking.models import LoadedModel
    from proser_core.recognition.open_set_classifier import OpenSetClassifier


@dataclass(frozen=True)
class EvaluateRequest:
    """All metrics of a model on labelled images, DATA/CLASS/*. Folders that are not named after a class of the model
    count as unknown."""

    model: Model
    data: Path
    """Folder with one folder of images per class."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Output file of the metrics (.json)."""
    scores: bool = False
    """Compare all scores of the model, each calibrated on the known images in --data. Scores that read training images
    need a model from a run with --calibration.score or --calibration.mirror, which keeps their embeddings."""
    device: Device = "auto"


def main(arguments: list[str]) -> int:
    """Evaluate."""
    return evaluate(parse(EvaluateRequest, "evaluate", arguments), console())


def evaluate(request: EvaluateRequest, console: Console) -> int:
    """Print the metrics and write them as JSON; exit code 1 where images were skipped. Raises DataError for a folder
    without images of a class of the model, and for a comparison of scores without other ones."""
    from pipelines.inference.folder_metrics import folder_metrics  # these load torch and mlflow: not for --help
    from pipelines.inference.labelled_folder import class_folders, folder_logits, seen_in_training
    from pipelines.inference.score_comparison import compare_scores
    from pipelines.tracking.models import load

    device = chosen_device(request.device, console)
    check_output(request.output, "--output", (".json",))
    model = load(request.model)
    _known_and_unknown(class_folders(request.data, model.classifier.class_names), request, model)
    walked = count_images([str(request.data)], written_to(request.output))
    embeddings = request.scores and model.classifier.own is None
    with ProgressBar(console, "evaluate", walked.count, "images", "reading images") as progress:
        scored = folder_logits(model.classifier, request.data, device, progress.update, embeddings=embeddings)
    scored = scored.in_folders()
    known, unknown = _known_and_unknown(sorted({*scored.folders}), request, model)  # of images that can be decoded
    found = folder_metrics(model.classifier, scored)
    compared = compare_scores(model.classifier, scored) if request.scores else None
    tables = [_metrics_table(model.title, found), _class_table(found, known)]
    for table in (*tables, *([_score_table(compared, model.classifier)] if compared else [])):
        console.print(table)
    lines = [f"counted as unknown: {', '.join(unknown)}" if unknown else "no folder of an unknown class"]
    lines += _missing_scores(compared, model.classifier) if compared else []
    lines += [_too_few_kept(model)] if found.keeps_too_few else []
    if request.output is not None:
        about = {"model": model.title, "data": str(request.data), **asdict(found)}
        about |= {"scores": asdict(compared)} if compared else {}
        write_output(request.output, json.dumps(about, indent=1).encode())
        lines.append(f"written: {request.output}")
    if seen := seen_in_training(model.classifier, request.data):
        lines.append(f"{seen}, these figures are too good: evaluate on images that it was not trained on")
    for line in (*lines, *ignored_lines(walked), *skipped_lines(scored.failures)):
        say(console, line)
    return 1 if scored.failures else 0


def _known_and_unknown(
    folders: list[str], request: EvaluateRequest, model: "LoadedModel"
) -> tuple[list[str], list[str]]:
    """As `known_and_others`. Raises DataError for a comparison of scores without one of the others, too."""
    from pipelines.inference.labelled_folder import known_and_others  # it loads torch

    known, unknown = known_and_others(folders, request.data, model)
    if request.scores and not unknown:
        raise DataError(
            f"--scores compares how unknown images are found, and {request.data} has images of known classes only; "
            "add a folder of an unknown class"
        )
    return known, unknown


def _metrics_table(title: str, found: "FolderMetrics") -> Table:
    head = f"{title}: {counted(found.num_known, 'image')} of known classes, {found.num_unknown} of others, %"
    table = TitledTable(title=escape(shown(head)), box=box.SIMPLE_HEAD, show_header=False)
    for name, value in found.metrics.items():
        note = _known_note(found) if name == "known_rate" else ""
        table.add_row(METRICS[name], "-" if value is None else percent(value), note)
    return table


def _known_note(found: "FolderMetrics") -> str:
    low, high = found.known_interval
    return f"target {100 * found.target_rate:.4g}; 95 % interval {percent(low)} to {percent(high)}"


def _too_few_kept(model: "LoadedModel") -> str:
    words = "keeps fewer known images than it was calibrated for"
    advice = f"`proser calibrate {shlex.quote(model.uri)} --data FOLDER` sets the threshold on images of your own"
    return words if model.version is None else f"{words}: {advice}"


def _score_table(compared: "ScoreComparison", classifier: "OpenSetClassifier") -> Table:
    rate = f"{100 * classifier.calibration.target_rate:.4g}"
    head = f"all scores, each calibrated to accept {rate} % of these known images, %"
    table = TitledTable("score", title=head, box=box.SIMPLE_HEAD)
    rows, names = list(compared.metrics.values()), list(compared.metrics)
    columns = []
    for metric in rows[0]:
        table.add_column(METRICS[metric], justify="right")
        columns.append(best_marked(metric, [row[metric] for row in rows], "[bold]{}[/bold]"))
    names = [f"{name} (the model's)" if name == compared.own else name for name in names]
    for row in zip(map(escape, names), *columns, strict=True):
        table.add_row(*row)
    return table


def _missing_scores(compared: "ScoreComparison", classifier: "OpenSetClassifier") -> list[str]:
    lines = [f"{name} is missing: {reason}" for name, reason in compared.missing.items()]
    if classifier.own is not None:
        lines.append("scores of embeddings are missing: the network is one of a method's own")
    elif classifier.fitting is None:
        lines.append(
            "scores that read training images are missing: the model keeps none of their embeddings. A run with "
            "--calibration.score auto makes one that does, from the trainings that are finished"
        )
    return lines


def _class_table(found: "FolderMetrics", known: list[str]) -> Table:
    table = Table("folder", box=box.SIMPLE_HEAD)
    for name in ("images", "accepted as known, %", "correct, %"):
        table.add_column(name, justify="right")
    for folder, each in found.classes.items():
        name = escape(shown(folder if folder in known else f"{folder} ({UNKNOWN})"))
        table.add_row(name, f"{each['images']:,}", percent(each["stays_known"]), percent(each["right"]))
    return table
