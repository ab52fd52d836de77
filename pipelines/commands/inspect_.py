"""`proser inspect MY_IMAGES`: what is wrong with a folder of images, before anything is trained on it."""

import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.commands.model_options import Device, chosen_device
from pipelines.commands.parsing import parse
from pipelines.console import console, say, shown
from pipelines.output_files import check_output, write_output
from pipelines.progress import ProgressBar
from pipelines.recipes import folder
from proser_core.titles import first_names

if TYPE_CHECKING:
    from pipelines.tracking.models import LoadedModel
    from proser_core.data.findings import Finding
    from proser_core.data.inspection import Inspection

WIDTH = 80
MOST_CLASSES = 12  # of which the terminal has a row
MOST_LINES = 20  # of one finding
BAR = 30  # signs of the longest bar


@dataclass(frozen=True)
class GroupOptions:
    """Which images belong together, as for `proser run folder`."""

    group_by: str = ""
    """A number of folder levels below the class, a regular expression on the file name, or a table, as for
    `proser run folder`."""
    group_near_duplicates: bool = True
    """Images that look alike belong together too."""


@dataclass(frozen=True)
class InspectRequest:
    """Find what would stop a run on a folder of images, or mislead it: unreadable files, duplicates within classes and
    across them, classes that are too small, odd images, and with --model doubtful labels. Nothing is changed; the exit
    code is 0 whatever is found."""

    my_images: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MY_IMAGES")]
    """Folder with one folder of images per class, or train/CLASS/* next to val/ and test/."""
    output: Annotated[Path | None, tyro.conf.arg(aliases=["-o"])] = None
    """Page (.html) with pictures of all findings, in one file. Without it, only a summary is printed."""
    model: str = ""
    """Classifier that finds doubtful labels, by the neighbours of each image's embedding: models:/NAME@ALIAS,
    models:/NAME/VERSION, or its folder. Without it, labels are not checked."""
    device: Device = "auto"
    data: GroupOptions = field(default_factory=GroupOptions)


def main(arguments: list[str]) -> int:
    """Inspect."""
    command = shlex.join(["proser", "inspect", *arguments])
    return inspect(parse(InspectRequest, "inspect", arguments), console(), command)


def inspect(request: InspectRequest, console: Console, command: str) -> int:
    """Print what was found, and write the page. Raises ProserError for a folder, a model or a rule that cannot be used,
    or an output that cannot be written."""
    from pipelines.reports.inspection_page import inspection_page  # these load jinja2 and Pillow: not for --help
    from pipelines.workflow.own_images import group_options
    from proser_core.data.findings import findings_of
    from proser_core.data.grouping import Grouping
    from proser_core.data.inspection import inspect_folder

    check_output(request.output, "--output", (".html",))
    data = replace(
        folder().data, group_by=request.data.group_by, group_near_duplicates=request.data.group_near_duplicates
    )
    device = chosen_device(request.device, console) if request.model else "cpu"
    model = _load(request.model) if request.model else None
    with ProgressBar(console, "inspect", 0, "images", "reading images") as progress:
        grouping = Grouping(data.group_by, data.group_near_duplicates)
        found = inspect_folder(request.my_images, grouping, progress.report)
    findings = findings_of(found)
    lines: list[str] = []
    if model is not None:
        doubts, unjudged = _doubts(model, found, device, console)
        findings += [doubts] if doubts.count else []
        if unjudged:
            lines.append(f"labels not judged, as the class has too few images or groups: {first_names(unjudged)}")
    console.print(_facts_table(found), _class_table(found), highlight=False)
    console.print(_findings_table(found, findings) if findings else "No findings.", highlight=False)
    if request.output is not None:
        write_output(request.output, inspection_page(found, findings, command))
        lines.append(f"written: {request.output}")
    elif findings:
        lines.append("-o PAGE.html shows them as pictures")
    train = shlex.join(
        ["proser", "run", "folder-pretrained", "--data-dir", str(request.my_images), *group_options(data)]
    )
    lines.append(f"{'Then train' if findings else 'Train'}: {train} (or folder)")
    for line in lines:
        say(console, line)
    return 0


def _load(name: str) -> "LoadedModel":
    """Raises ConfigError for a network without an embedding."""
    from pipelines.tracking.models import load  # these load torch and mlflow
    from proser_core.recognition.embedding_table import check_embeds

    model = load(name)
    check_embeds(model.classifier.net)
    return model


def _doubts(model: "LoadedModel", found: "Inspection", device: str, console: Console) -> tuple["Finding", list[str]]:
    from pipelines.inference.doubted_labels import doubted_labels  # it loads torch

    total = len(found.files)
    with ProgressBar(console, "inspect", total, "images", "computing embeddings") as progress:
        return doubted_labels(model.classifier, model.title, found, device, progress.update)


def _facts_table(found: "Inspection") -> Table:
    from pipelines.reports.inspection_page import facts_of

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), width=WIDTH)
    for name, fact in facts_of(found).items():
        table.add_row(name, escape(shown(fact)))
    return table


def _class_table(found: "Inspection") -> Table:
    """The smallest classes first."""
    from pipelines.reports.inspection_page import class_rows

    rows = class_rows(found)
    table = Table("class", box=box.SIMPLE_HEAD, width=WIDTH, padding=(0, 1, 0, 0))
    table.add_column("images", justify="right", no_wrap=True)
    table.add_column("", min_width=BAR, no_wrap=True)
    first = rows if len(rows) <= MOST_CLASSES else [*rows[: MOST_CLASSES - 1], rows[-1]]
    for name, count, share in first:
        table.add_row(escape(name), f"{count:,}", "█" * round(BAR * share))
    if len(first) < len(rows):
        table.caption = f"{len(rows) - len(first)} classes between them are not shown"
    return table


def _findings_table(found: "Inspection", findings: list["Finding"]) -> Table:
    table = Table("number", "finding, examples, and what to do", box=box.SIMPLE_HEAD, width=WIDTH, padding=(0, 1, 0, 0))
    table.columns[0].justify = "right"
    table.columns[1].overflow = "fold"
    for each in findings:
        lines = [f"[bold]{escape(shown(each.title))}[/bold]", escape(_examples(found, each)), escape(each.advice)]
        table.add_row(f"{each.count:,}", "\n".join(lines), end_section=True)
    return table


def _examples(found: "Inspection", finding: "Finding") -> str:
    """The first set of images; of what cannot be shown, such as a file that a run would stop at, MOST_LINES."""
    from pipelines.reports.inspection_page import name_of

    if finding.lines:
        left = len(finding.lines) - MOST_LINES
        more = [f"and {left:,} more, which -o PAGE.html lists"] if left > 0 else []
        return "\n".join([*map(shown, finding.lines[:MOST_LINES]), *more])
    return ", ".join(
        f"{name_of(found, row)}{f' ({shown(caption)})' * bool(caption)}" for row, caption in finding.sets[0][:2]
    )
