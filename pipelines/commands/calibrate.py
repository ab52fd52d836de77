"""`proser calibrate MODEL --data DIR`: fit a new bias on known images, and register it as a new version."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from pipelines.commands.model_options import Device, chosen_device, ignored_lines, skipped_lines
from pipelines.commands.parsing import parse
from pipelines.console import console, say
from pipelines.progress import ProgressBar
from proser_core.config import CalibrationConfig
from proser_core.data.readers.image_files import check_paths, count_images
from proser_core.errors import ConfigError, DataError, TrackingError
from proser_core.titles import counted, percent

if TYPE_CHECKING:
    from pipelines.tracking.models import LoadedModel
    from proser_core.recognition.calibration import Calibration


@dataclass(frozen=True)
class CalibrateRequest:
    """Fit a new bias on your own images of known classes, and register it as a new version. Nothing is trained. Use
    images that the model was not trained on: a bias from training images keeps fewer new images than it promises."""

    model: Annotated[
        tyro.conf.Positional[str],
        tyro.conf.arg(metavar="MODEL", help="Registered model: models:/NAME@ALIAS or models:/NAME/VERSION."),
    ]
    data: Path
    """Folder of images of known classes: DATA/CLASS/*, or DATA/* if it has no folder of a class. Folders of other
    classes are left out."""
    target_rate: float | None = None
    """Share of these images to accept as known; by default 0.95."""
    unknown_share: float | None = None
    """Share of unknown images that you expect in use. Instead of --target-rate, it takes the rate at which errors cost
    least, by the validation images and development unknowns of the model's training."""
    cost: float = 1.0
    """With --unknown-share: the cost of calling an unknown image known, if calling a known one unknown costs 1."""
    device: Device = "auto"

    def __post_init__(self) -> None:
        for option, value in (("--target-rate", self.target_rate), ("--unknown-share", self.unknown_share)):
            if value is not None and not 0 < value < 1:
                raise ConfigError(f"{option} got {value:g}; need a fraction between 0 and 1, such as 0.9")
        if not 0 < self.cost < math.inf:
            raise ConfigError(f"--cost got {self.cost:g}; need a positive number, such as 10")
        if self.unknown_share is not None and self.target_rate is not None:
            raise ConfigError("--target-rate and --unknown-share are both given, and each decides the rate; omit one")
        if self.unknown_share is None and self.cost != 1:
            raise ConfigError(f"--cost {self.cost:g} weighs errors by --unknown-share, which is missing; give both")


def main(arguments: list[str]) -> int:
    """Calibrate."""
    return calibrate(parse(CalibrateRequest, "calibrate", arguments), console())


def calibrate(request: CalibrateRequest, console: Console) -> int:
    """Register a version with the new bias; exit code 1 where images were skipped. Raises TrackingError for a model in
    a folder, DataError for images of other classes alone and for Parquet files, ConfigError for too few images."""
    from pipelines.inference.labelled_folder import (  # these load torch and mlflow: not for --help
        class_folders,
        folder_logits,
        known_and_others,
        seen_in_training,
    )
    from pipelines.inference.recalibration import recalibrated, register_recalibrated
    from pipelines.tracking.models import load
    from pipelines.tracking.server import connect

    device = chosen_device(request.device, console)
    model = load(request.model)
    if model.version is None:
        raise TrackingError(
            f"{request.model} is a folder; a new version needs a registered model, models:/NAME/VERSION"
        )
    connect(writes=True)
    folders = class_folders(request.data, model.classifier.class_names)
    known, others = known_and_others(folders, request.data, model) if folders else ([], [])
    if others:
        say(console, f"left out, as {model.title} does not know them: {', '.join(others)}")
    check_paths([str(request.data)])
    found = count_images([str(request.data)])
    if found.has_parquet:
        raise DataError(
            f"{request.data} has a Parquet file, whose labels are not read; give image files, with a folder for each "
            "class"
        )
    rate = _rate(request, model)
    with ProgressBar(console, "calibrate", found.count, "images", "reading images") as progress:
        scored = folder_logits(model.classifier, request.data, device, progress.update)
    if folders:
        scored = scored.in_folders().of_folders(known)
    else:
        say(console, f"no folder of a class in {request.data}: all images are treated as known")
    count = len(scored.logits)
    if request.unknown_share is not None:  # of n images one at least may be called unknown, as of any others
        if count < 2:
            raise ConfigError(
                f"--unknown-share got {counted(count, 'image')}; need at least 2, so that one of them may be called "
                "unknown. Give more images"
            )
        rate = min(rate, 1 - 1 / count)
    _check_count(count, rate)
    classifier = recalibrated(model.classifier, scored.logits, rate)
    registered = register_recalibrated(model, classifier, request.data)
    for line in (*_lines(model, classifier.calibration), *ignored_lines(found), *skipped_lines(scored.failures)):
        say(console, line)
    if seen := seen_in_training(model.classifier, request.data):
        say(console, f"{seen}, fewer new images stay known than said: calibrate on images that it was not trained on")
    say(console, f"Model: {registered.in_words()}")
    if step := registered.next_step():
        say(console, f"{step} (it compares on images of the training; add --force where only the bias is in its way)")
    return 1 if scored.failures else 0


def _rate(request: CalibrateRequest, model: "LoadedModel") -> float:
    """The share of known images to keep. Raises DataError for a model that was trained without an unknown image, and
    CalibrationError where it is cheapest to keep none."""
    if request.unknown_share is None:
        return CalibrationConfig.target_rate if request.target_rate is None else request.target_rate
    rates = model.classifier.known_rates
    if rates is None:
        raise DataError(
            f"{model.title} was trained without unknown images to measure with, which --unknown-share needs; give "
            "--target-rate"
        )
    return rates.cheapest(request.unknown_share, request.cost)


def _check_count(count: int, target_rate: float) -> None:
    from proser_core.recognition.calibration import images_needed  # loads scipy: not for --help

    if count < (needed := images_needed(target_rate)):
        raise ConfigError(
            f"a target rate of {target_rate:g} got {counted(count, 'image')}; need at least {needed}, so that one of "
            "them may be called unknown. Give more images or a lower rate"
        )


def _lines(model: "LoadedModel", new: "Calibration") -> list[str]:
    old, (low, high) = model.classifier.calibration, new.interval
    return [
        f"{model.title}: bias {old.bias:.4f} (target {100 * old.target_rate:.4g} %, {old.num_images} images)",
        f"new bias {new.bias:.4f}: {percent(new.known_rate)} % of {new.num_images} images stay known (target "
        f"{100 * new.target_rate:.4g} %); of new images of their kind {percent(low)} to {percent(high)} %, with 95 % "
        "confidence",
    ]
