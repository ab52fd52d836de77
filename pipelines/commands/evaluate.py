"""`proser evaluate MODEL --data DIR`: all metrics of a model on labelled images."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.commands.model_options import Device, Model, check_device, skipped_lines
from pipelines.commands.parsing import parse
from pipelines.console import console, say, shown
from pipelines.output_files import check_output, write_output
from proser_core.errors import DataError
from proser_core.naming import UNKNOWN
from proser_core.titles import METRICS, percent

if TYPE_CHECKING:
    from pipelines.inference.folder_metrics import FolderMetrics


@dataclass(frozen=True)
class EvaluateRequest:
    """All metrics of a model on labelled images, DATA/CLASS/*. Folders that are not named after a class of the model
    count as unknown."""

    model: Model
    data: Path
    """Folder with one folder of images per class."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Output file of the metrics (.json)."""
    device: Device = "cpu"


def main(arguments: list[str]) -> int:
    """Evaluate."""
    return evaluate(parse(EvaluateRequest, "evaluate", arguments), console())


def evaluate(request: EvaluateRequest, console: Console) -> int:
    """Print the metrics and write them as JSON; exit code 1 where images were skipped. Raises DataError for a folder
    without folders of classes, or without a class of the model."""
    from pipelines.inference.folder_metrics import folder_metrics  # these load torch and mlflow: not for --help
    from pipelines.inference.labelled_folder import class_folders, folder_logits
    from pipelines.tracking.models import load

    check_device(request.device)
    check_output(request.output, "--output", (".json",))
    model = load(request.model)
    folders = class_folders(request.data)
    known = [name for name in folders if name in model.classifier.class_names]
    if not known:
        has = f"the folders {', '.join(folders)}" if folders else "no folder of a class"
        names = ", ".join(model.classifier.class_names)
        raise DataError(f"{request.data} has {has}; need one of a class that {model.title} knows: {names}")
    scored = folder_logits(model.classifier, request.data, request.device).in_folders()
    found = folder_metrics(model.classifier, scored)
    for table in (_metrics_table(model.title, found), _class_table(found, known)):
        console.print(table)
    unknown = [name for name in folders if name not in known]
    lines = [f"counted as unknown: {', '.join(unknown)}" if unknown else "no folder of an unknown class"]
    if request.output is not None:
        about = {"model": model.title, "data": str(request.data), **asdict(found)}
        write_output(request.output, json.dumps(about, indent=1).encode())
        lines.append(f"written: {request.output}")
    for line in (*lines, *skipped_lines(scored.failures)):
        say(console, line)
    return 1 if scored.failures else 0


def _metrics_table(title: str, found: "FolderMetrics") -> Table:
    head = f"{title}: {found.num_known} images of known classes, {found.num_unknown} of others, %"
    table = Table(title=escape(shown(head)), title_justify="left", box=box.SIMPLE_HEAD, show_header=False)
    for name, value in found.metrics.items():
        table.add_row(METRICS[name], "-" if value is None else percent(value))
    return table


def _class_table(found: "FolderMetrics", known: list[str]) -> Table:
    table = Table("folder", box=box.SIMPLE_HEAD)
    for name in ("images", "accepted as known, %", "correct, %"):
        table.add_column(name, justify="right")
    for folder, each in found.classes.items():
        name = escape(shown(folder if folder in known else f"{folder} ({UNKNOWN})"))
        table.add_row(name, f"{each['images']:,}", percent(each["stays_known"]), percent(each["right"]))
    return table
