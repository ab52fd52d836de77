"""`proser predict`: classify any number of images, piece by piece, here or on a cluster."""

import time
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.console import say, utf8_text
from pipelines.inference.contact_sheet import ContactSheet, check_picture
from pipelines.inference.labelled_folder import SHOWN, check_device, told
from pipelines.inference.prediction_files import FORMATS, open_output
from pipelines.inference.predictions import LOOKED_AT, Answer, answer
from pipelines.output_files import check_output
from pipelines.progress import ProgressBar
from proser_core.class_names import UNKNOWN
from proser_core.data.readers.image_files import Failure, Found, absolute, check_paths, count_images, decoded, pieces
from proser_core.errors import ConfigError
from proser_core.jobs.progress import duration
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.titles import percent


@dataclass(frozen=True)
class PredictRequest:
    """A model by URI or folder, the paths of images, and where the predictions go.

    Without `output` they are only summed up. `address` is a Ray cluster, empty for this process alone.
    """

    model: str
    paths: tuple[str, ...]
    output: Path | None = None
    contact_sheet: Path | None = None
    device: str = "cpu"
    address: str = ""
    workers: int = 0


@dataclass
class Summary:
    """What the predictions came to; `failures` are the first images that were left out, of `left_out` in all."""

    labels: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    left_out: int = 0

    @property
    def classified(self) -> int:
        """Images that were classified."""
        return self.labels.total()

    @property
    def done(self) -> int:
        """Images that were looked at."""
        return self.classified + self.left_out

    def add(self, part: Answer) -> None:
        """Count another part."""
        self.labels.update(part.predictions.labels)
        self.left_out += len(part.failures)
        self.failures = (self.failures + part.failures)[:SHOWN]


def predict(request: PredictRequest, console: Console) -> int:
    """Classify, write and sum up; the exit code is 1 where images were left out, else 0.

    Raises ProserError for a model or paths that are not there, or an output that cannot be written.
    """
    from pipelines.tracking.models import load

    if request.workers < 0:
        raise ConfigError(f"--workers got {request.workers}; need 0 or more")
    if not request.address:
        check_device(request.device)
    check_picture(request.contact_sheet, "--contact-sheet")
    check_output(request.output, "--output", FORMATS)
    found = Found(outputs=absolute(request.output, request.contact_sheet))
    check_paths(request.paths, found)
    model = load(request.model)
    classifier, summary, total = model.classifier, Summary(), count_images(request.paths, found)
    sheet = ContactSheet(request.contact_sheet)
    started = time.monotonic()
    progress = ProgressBar(console, "predict", total, "images")
    try:
        with (
            open_output(request.output, classifier.class_names) as write,
            closing(_answers(request, classifier, found)) as parts,
        ):
            for part in parts:
                write(part)
                summary.add(part)
                sheet.add(part)
                progress.update(summary.done)
    finally:
        progress.close()
    seconds = time.monotonic() - started
    drawn = request.contact_sheet if sheet.save() else None
    console.print(_table(model.title, classifier, summary))
    rate = summary.classified / max(seconds, 1e-9)
    say(console, f"{summary.classified:,} images in {duration(seconds)}, {rate:,.0f} a second")
    if found.others:
        say(console, f"left alone: {found.others} files without images, first {found.first_other}")
    for path in filter(None, (request.output, drawn)):
        say(console, f"written: {path}")
    for line in told(summary.failures, summary.left_out):
        say(console, line)
    if summary.left_out > SHOWN and request.output is None:
        say(console, "--output FILE names all of them")
    return 1 if summary.left_out else 0


def _answers(request: PredictRequest, classifier: OpenSetClassifier, found: Found) -> Generator[Answer, None, None]:
    if request.address:
        from pipelines.inference.predictions_on_ray import answers_on_cluster

        return answers_on_cluster(classifier, request, found)
    looked_at = 0 if request.contact_sheet is None else LOOKED_AT
    return answers_here(classifier, request.paths, found, request.device, looked_at)


def answers_here(
    classifier: OpenSetClassifier, paths: Sequence[str], found: Found, device: str = "cpu", looked_at: int = 0
) -> Generator[Answer, None, None]:
    """Answers in the order of the images; the next ones are decoded while these are classified."""
    with ThreadPoolExecutor() as decoders, ThreadPoolExecutor(1) as ahead:
        parts = (part for piece in pieces(paths, found) for part in decoded(piece, classifier.image_size, decoders))
        coming = ahead.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = ahead.submit(next, parts, None)
            yield answer(classifier, part, device, looked_at)


def _table(title: str, classifier: OpenSetClassifier, summary: Summary) -> Table:
    """Images by class, most frequent first, unknown last."""
    table = Table(title=escape(utf8_text(title)), title_justify="left", box=box.SIMPLE_HEAD)
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
