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
from rich.table import Table

from pipelines.answers import Answer, answer
from pipelines.contact_sheet import ContactSheet
from pipelines.prediction_files import open_output
from pipelines.progress import Tracker
from pipelines.summary import percent
from proser_core.data.image_files import Failure, Found, check_paths, count_images, decoded, pieces
from proser_core.jobs.progress import duration
from proser_core.recognition.open_set_classifier import UNKNOWN, OpenSetClassifier

SHOWN = 10  # images that were left out which the terminal names; the output has all


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
    """What the predictions came to."""

    labels: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    @property
    def classified(self) -> int:
        """Images that were classified."""
        return self.labels.total()

    @property
    def done(self) -> int:
        """Images that were looked at."""
        return self.classified + len(self.failures)

    def add(self, part: Answer) -> None:
        """Count another part."""
        self.labels.update(part.predictions.labels)
        self.failures += part.failures


def predict(request: PredictRequest, console: Console) -> int:
    """Classify, write and sum up; the exit code is 1 where images were left out, else 0.

    Raises ProserError for a model or paths that are not there, or an output that cannot be written.
    """
    from pipelines.tracking.models import load

    check_paths(request.paths)
    model = load(request.model)
    classifier, summary, found = model.classifier, Summary(), Found()
    total = count_images(request.paths)
    sheet = ContactSheet(request.contact_sheet)
    started = time.monotonic()
    progress = Tracker(console, "predict", total, "images")
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
    sheet.save()
    console.print(_table(model.title, classifier, summary))
    rate = summary.classified / max(seconds, 1e-9)
    console.print(f"{summary.classified:,} images in {duration(seconds)}, {rate:,.0f} a second", highlight=False)
    if found.others:
        _say(console, f"left alone: {found.others} files that are no images by their ending, first {found.first_other}")
    for path in filter(None, (request.output, request.contact_sheet)):
        _say(console, f"written: {path}")
    for failure in summary.failures[:SHOWN]:
        _say(console, f"left out: {failure.reason}")
    if len(summary.failures) > SHOWN:
        rest = f"; {request.output} names all" if request.output else "; --output FILE names all"
        _say(console, f"left out: {len(summary.failures) - SHOWN} more{rest}")
    return 1 if summary.failures else 0


def _answers(request: PredictRequest, classifier: OpenSetClassifier, found: Found) -> Generator[Answer, None, None]:
    if request.address:
        from pipelines.predicting_on_ray import answers_on_cluster

        return answers_on_cluster(classifier, request.paths, found, request.address, request.workers, request.device)
    return answers_here(classifier, request.paths, found, request.device)


def answers_here(
    classifier: OpenSetClassifier, paths: Sequence[str], found: Found, device: str = "cpu"
) -> Generator[Answer, None, None]:
    """Answers in the order of the images; the next ones are decoded while these are classified."""
    with ThreadPoolExecutor() as decoders, ThreadPoolExecutor(1) as ahead:
        parts = (part for piece in pieces(paths, found) for part in decoded(piece, classifier.image_size, decoders))
        coming = ahead.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = ahead.submit(next, parts, None)
            yield answer(classifier, part, device)


def _table(title: str, classifier: OpenSetClassifier, summary: Summary) -> Table:
    """Images by class, most frequent first, unknown last."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("class")
    table.add_column("images", justify="right")
    table.add_column("share, %", justify="right")
    known = [name for name in classifier.class_names if summary.labels[name]]
    for name in sorted(known, key=lambda name: -summary.labels[name]):
        table.add_row(name, *_share(summary, name))
    table.add_row(UNKNOWN, *_share(summary, UNKNOWN), style="bold")
    return table


def _share(summary: Summary, name: str) -> tuple[str, str]:
    count = summary.labels[name]
    return f"{count:,}", percent(count / max(summary.classified, 1))


def _say(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
