"""`proser review MODEL PATH ...`: group the images that a model does not know, to be named as new classes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import tyro
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.commands.model_options import Device, ImagePaths, Model, chosen_device, ignored_lines, skipped_lines
from pipelines.commands.parsing import parse
from pipelines.console import console, say
from pipelines.inference.review_names import NAMES, PAGE, add_images, check_replaceable, read_named
from pipelines.progress import ProgressBar
from proser_core.data.readers.image_files import check_paths, count_images
from proser_core.errors import ConfigError, DataError
from proser_core.store.lock import absent_folders
from proser_core.titles import counted

if TYPE_CHECKING:
    from pipelines.inference.unknown_groups import Group, Reviewed
    from proser_core.recognition.open_set_classifier import OpenSetClassifier

APPLY = "--apply"


@dataclass(frozen=True)
class ReviewRequest:
    """Group the images that a model calls unknown, and write a page on which you name the groups that are new classes.
    `proser review --apply FOLDER --to MY_IMAGES` then copies the named images."""

    model: Model
    paths: Annotated[ImagePaths, tyro.conf.arg(help="Images: files, folders, patterns such as 'photos/*.jpg'.")]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("review")
    """Folder for the review: index.html, images.csv and names.csv. An earlier review there is replaced, unless its
    names.csv has names."""
    known_rate: float | None = None
    """Share of known validation images that the threshold keeps; by default the model's own threshold. A smaller share
    shows more unknown images, and more known ones among them."""
    least: int = 5
    """Smallest number of images in a group."""
    device: Device = "auto"

    def __post_init__(self) -> None:
        if self.known_rate is not None and not 0 < self.known_rate < 1:
            raise ConfigError(f"--known-rate got {self.known_rate:g}; need a fraction between 0 and 1, such as 0.8")
        if self.least < 2:
            raise ConfigError(f"--least got {self.least}; need 2 or more")
        check_replaceable(self.output)


@dataclass(frozen=True)
class ApplyRequest:
    """Copy the images that were named in a review into the folders of their classes. Train with `proser run folder`
    after it."""

    apply: Path
    """Folder of the review, with the names.csv that its page saved."""
    to: Path
    """Your folder of images, with a folder for each class (or train/ with them)."""
    dry_run: bool = False
    """Only say what would be copied."""


def main(arguments: list[str]) -> int:
    """Review, or apply a review."""
    if any(word == APPLY or word.startswith(f"{APPLY}=") for word in arguments):
        return apply(parse(ApplyRequest, "review", arguments), console())
    return review(parse(ReviewRequest, "review", arguments), console())


def review(request: ReviewRequest, console: Console) -> int:
    """Classify, group and, if an image is unknown, write the page; exit code 1 where images were skipped. Raises
    ProserError for a model or paths that do not exist, and for a network without embeddings."""
    from pipelines.inference.review_files import write_review  # these load torch and mlflow
    from pipelines.inference.unknown_groups import grouped, review_images
    from pipelines.tracking.models import load

    device = chosen_device(request.device, console)
    check_paths(request.paths)
    _check_can_be_made(request.output)
    model = load(request.model)
    classifier = _at_rate(model.classifier, request.known_rate)
    found = count_images(request.paths)
    with ProgressBar(console, "review", found.count, "images", "reading images") as progress:
        reviewed = review_images(classifier, request.paths, found, device, progress.update)
    groups = grouped(reviewed.embeddings, request.least)
    unknown = f"{reviewed.num_unknown:,} of {reviewed.total:,} images unknown"
    copies = f", {reviewed.copies:,} of them with the same pixels as another" if reviewed.copies else ""
    say(console, f"{model.title}: {unknown}{copies}")
    if reviewed.unknown:
        write_review(request.output, model.title, reviewed, groups, classifier.class_names)
    if groups:
        console.print(_table(reviewed, groups))
    for line in (*ignored_lines(found), *skipped_lines(reviewed.failures)):
        say(console, line)
    if groups:
        say(console, f"Name the groups in {request.output / PAGE}, and save {NAMES} into {request.output}; then:")
        say(console, f"  proser review {APPLY} {quote(str(request.output))} --to MY_IMAGES")
    elif reviewed.unknown:
        say(
            console,
            f"no group: fewer than {request.least} different images are unknown; {request.output / PAGE} shows them",
        )
        say(console, "  a smaller --known-rate (more images are unknown) or --least (smaller groups) may give some")
    else:
        say(console, "nothing to review, and nothing written; with a smaller --known-rate more images are unknown")
    return 1 if reviewed.failures else 0


def _check_can_be_made(folder: Path) -> None:
    """Raises ConfigError for a folder that cannot be made. It is made after the work, which may be refused."""
    absent = absent_folders(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--output got {folder}, which cannot be made ({error.strerror}); give another") from error
    for each in absent:
        each.rmdir()


def _at_rate(classifier: "OpenSetClassifier", rate: float | None) -> "OpenSetClassifier":
    """With the threshold that keeps `rate` of the known validation images. Raises DataError for a model that has no
    scores of these."""
    from proser_core.recognition.calibration import calibrate  # it loads scipy: not for --help

    if rate is None:
        return classifier
    scores = classifier.validation_scores
    if scores is None:
        raise DataError(
            "--known-rate needs a model with its scores of validation images, and this one has none; omit it"
        )
    return replace(classifier, calibration=calibrate(scores.known_scores, rate))


def apply(request: ApplyRequest, console: Console) -> int:
    """Copy; exit code 1 where some cannot be. Raises DataError for a folder without a review or without names, and for
    names that no class may have."""
    if not request.to.is_dir():
        raise ConfigError(f"--to got {request.to}, which is not a folder; give the folder of your images")
    named = read_named(request.apply)
    if not named:
        raise ConfigError(f"{request.apply / NAMES} names no group; name one in {request.apply / PAGE}, if it has any")
    added = add_images(named, request.to, dry_run=request.dry_run)
    verb = "would be copied" if request.dry_run else "copied"
    for name, count in added.copied.items():
        there = f", {added.there[name]} there already" if added.there[name] else ""
        say(console, f"{name}: {counted(count, 'image')} {verb}{there}")
    for line in skipped_lines(added.failures):
        say(console, line)
    if not request.dry_run:
        command = f"proser run folder --data-dir {quote(str(request.to))}"
        say(console, f"Train: {command} (or folder-pretrained), then proser promote")
    return 1 if added.failures else 0


def _table(reviewed: "Reviewed", groups: Sequence["Group"]) -> Table:
    """A row per group: its size, how many others may be taken in, and the known classes that it is most like."""
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("group", "images", "others near it"):
        table.add_column(name, justify="right")
    table.add_column("most like")
    for number, group in enumerate(groups, 1):
        like = Counter(reviewed.unknown[row].nearest_class for row in group.rows).most_common(2)
        words = ", ".join(f"{escape(name)} ({count})" for name, count in like)
        table.add_row(str(number), f"{len(group.rows):,}", f"{len(group.further):,}", words)
    return table
