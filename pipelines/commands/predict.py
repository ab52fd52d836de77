"""`proser predict MODEL PATH ...`: classify any number of images, here or on a Ray cluster."""

import time
from collections import Counter
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.commands.model_options import (
    MAX_LISTED,
    ClusterDevice,
    ImagePaths,
    Model,
    chosen_device,
    ignored_lines,
    skipped_lines,
)
from pipelines.commands.parsing import parse
from pipelines.console import TitledTable, console, say, shown
from pipelines.output_files import PICTURE_ENDINGS, check_output
from pipelines.progress import ProgressBar
from proser_core.data.decoding import Failure
from proser_core.data.readers.image_files import Found, Outputs, check_paths, count_images, written_to
from proser_core.errors import ConfigError, DataError
from proser_core.naming import UNKNOWN
from proser_core.titles import counted, duration, percent

if TYPE_CHECKING:
    from pipelines.inference.predictions import PredictedPart
    from proser_core.recognition.open_set_classifier import OpenSetClassifier


@dataclass(frozen=True)
class PredictRequest:
    """Name the class of each image, or say that it is unknown. Memory does not grow with the number of images. An image
    that cannot be decoded is named and skipped; the exit code is then 1, or 2 where none can be."""

    model: Model
    paths: ImagePaths
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Output file, one row per image (.parquet, .csv or .jsonl). Without it only a summary is printed."""
    contact_sheet: Path | None = None
    """Picture (.png, .pdf, .svg, .jpg) of the 40 most unknown images, with what each was called."""
    device: ClusterDevice = "auto"
    address: str = ""
    """Ray cluster whose machines share the work, `auto` or host:port. All of them must see the paths."""
    workers: int = 0
    """Processes on that cluster; 0 is one per free CPU, or one per free GPU with --device cuda."""

    def __post_init__(self) -> None:
        if self.workers < 0:
            raise ConfigError(f"--workers got {self.workers}; need 0 or more")
        if self.workers and not self.address:
            raise ConfigError(f"--workers {self.workers} needs a Ray cluster; name it with --address, such as auto")


@dataclass
class Summary:
    """Counts of the predictions; `failures` are the first of the `skipped` images."""

    labels: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    skipped: int = 0

    @property
    def classified(self) -> int:
        """Images that were classified."""
        return self.labels.total()

    def add(self, part: "PredictedPart") -> None:
        """Count another part."""
        self.labels.update(part.predictions.labels)
        self.skipped += len(part.failures)
        self.failures = (self.failures + part.failures)[:MAX_LISTED]


def main(arguments: list[str]) -> int:
    """Predict."""
    return predict(parse(PredictRequest, "predict", arguments), console())


def predict(request: PredictRequest, console: Console) -> int:
    """Classify, write and sum up; exit code 1 where images were skipped. Raises ProserError for a model or paths that
    do not exist, an output that cannot be written, or where every image was skipped."""
    from pipelines.inference.contact_sheet import ContactSheet  # these load torch and mlflow: not for --help
    from pipelines.inference.prediction_files import FORMATS, open_output
    from pipelines.tracking.models import load

    request = replace(request, device=chosen_device(request.device, console, request.address))
    check_output(request.contact_sheet, "--contact-sheet", PICTURE_ENDINGS)
    check_output(request.output, "--output", FORMATS)
    outputs = written_to(request.output, request.contact_sheet)
    check_paths(request.paths, outputs)
    model = load(request.model)
    classifier, summary = model.classifier, Summary()
    sheet = ContactSheet(request.contact_sheet, classifier.class_names)
    earlier = request.output is not None and request.output.exists()
    started = time.monotonic()
    found = count_images(request.paths, outputs)
    with (
        ProgressBar(console, "predict", found.count, "images", "reading images") as progress,
        open_output(request.output, classifier.class_names) as write,
        closing(_predictions(request, classifier, outputs, sheet.size)) as parts,
    ):
        for part in parts:
            write(part)
            summary.add(part)
            sheet.add(part)
            progress.update(summary.classified + summary.skipped)
    seconds = time.monotonic() - started
    rate = summary.classified / max(seconds, 1e-9)
    drawn = request.contact_sheet if sheet.save() else None
    if summary.classified:
        console.print(_table(model.title, classifier, summary))
        say(console, f"{counted(summary.classified, 'image')} in {duration(seconds)}, {_rate(rate)} per second")
    for line in _notes(found, request, drawn, summary, kept=earlier and not summary.classified):
        say(console, line)
    if not summary.classified:
        raise DataError(f"no image can be decoded, of {summary.skipped:,}; repair them, or give others")
    return 1 if summary.skipped else 0


def _predictions(
    request: PredictRequest, classifier: "OpenSetClassifier", outputs: Outputs, num_kept: int
) -> Generator["PredictedPart", None, None]:
    if request.address:
        from pipelines.inference.predictions_on_ray import predict_paths_on_ray  # it loads ray

        return predict_paths_on_ray(
            classifier, request.paths, outputs, request.address, request.workers, request.device, num_kept
        )
    from pipelines.inference.predictions import predict_paths  # it loads torch

    return predict_paths(classifier, request.paths, outputs, request.device, num_kept)


def _rate(images: float) -> str:
    return f"{images:,.0f}" if images >= 100 else f"{images:.3g}"


def _notes(
    found: Found, request: PredictRequest, drawn: Path | None, summary: Summary, *, kept: bool
) -> Generator[str, None, None]:
    """`kept` says that an earlier output was not replaced."""
    yield from ignored_lines(found)
    if kept:
        yield f"unchanged: {request.output}"
    for path in filter(None, (None if kept else request.output, drawn)):
        yield f"written: {path}"
    yield from skipped_lines(summary.failures, summary.skipped)
    if summary.skipped > MAX_LISTED and request.output is None:
        yield "--output FILE lists all of them"


def _table(title: str, classifier: "OpenSetClassifier", summary: Summary) -> Table:
    """Images by class, most frequent first, unknown last."""
    table = TitledTable(title=escape(shown(title)), box=box.SIMPLE_HEAD)
    table.add_column("class")
    table.add_column("images", justify="right")
    table.add_column("share, %", justify="right")
    known = [name for name in classifier.class_names if summary.labels[name]]
    for name in sorted(known, key=lambda name: -summary.labels[name]):
        table.add_row(escape(name), *_share(summary, name))
    table.add_row(UNKNOWN, *_share(summary, UNKNOWN), style="bold")
    return table


def _share(summary: Summary, name: str) -> tuple[str, str]:
    count = summary.labels[name]
    return f"{count:,}", percent(count / max(summary.classified, 1))
