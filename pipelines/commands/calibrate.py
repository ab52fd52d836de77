"""`proser calibrate MODEL --data DIR`: fit a new bias on known images, and register it as a new version."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from pipelines.commands.model_options import Device, Model, check_device, skipped_lines
from pipelines.commands.parsing import parse
from pipelines.console import console, say
from proser_core.errors import ConfigError, DataError, TrackingError
from proser_core.titles import percent

if TYPE_CHECKING:
    from pipelines.tracking.models import Model as LoadedModel
    from proser_core.recognition.calibration import Calibration


@dataclass(frozen=True)
class CalibrateRequest:
    """Fit a new bias on your own images of known classes, and register it as a new version. Nothing is trained."""

    model: Model
    data: Path
    """Folder of images of known classes: DATA/CLASS/*, or DATA/* without classes."""
    target_rate: float = 0.95
    """Share of these images to accept as known."""
    device: Device = "cpu"

    def __post_init__(self) -> None:
        if not 0 < self.target_rate < 1:
            raise ConfigError(f"--target-rate got {self.target_rate:g}; need a fraction between 0 and 1, such as 0.99")


def main(arguments: list[str]) -> int:
    """Calibrate."""
    return calibrate(parse(CalibrateRequest, "calibrate", arguments), console())


def calibrate(request: CalibrateRequest, console: Console) -> int:
    """Register a version with the new bias; exit code 1 where images were skipped. Raises TrackingError for a model in
    a folder, DataError for images of other classes, ConfigError for too few images."""
    from pipelines.inference.labelled_folder import class_folders, folder_logits  # these load torch and mlflow
    from pipelines.inference.recalibration import recalibrated, register_recalibrated
    from pipelines.tracking.models import load

    check_device(request.device)
    model = load(request.model)
    if model.version is None:
        raise TrackingError(
            f"{request.model} is a folder; a new version needs a registered model, models:/NAME/VERSION"
        )
    others = sorted(set(class_folders(request.data)) - set(model.classifier.class_names))
    if others:
        raise DataError(
            f"{request.data} has a folder {others[0]!r}, and {model.title} knows "
            f"{', '.join(model.classifier.class_names)}; give images of known classes only"
        )
    scored = folder_logits(model.classifier, request.data, request.device)
    _check_count(len(scored.logits), request.target_rate)
    classifier = recalibrated(model.classifier, scored.logits, request.target_rate)
    registered = register_recalibrated(model, classifier, request.data)
    for line in (*_lines(model, classifier.calibration), *skipped_lines(scored.failures)):
        say(console, line)
    say(console, f"Model: models:/{registered.name}/{registered.version} (candidate)")
    return 1 if scored.failures else 0


def _check_count(count: int, target_rate: float) -> None:
    needed = round(1 / (1 - target_rate))
    if count < needed:
        raise ConfigError(
            f"--target-rate {target_rate:g} got {count} images; need at least {needed}, so that one of them may be "
            "called unknown. Give more images or a lower rate"
        )


def _lines(model: "LoadedModel", new: "Calibration") -> list[str]:
    old, (low, high) = model.classifier.calibration, new.interval
    return [
        f"{model.title}: bias {old.bias:.4f} (target {100 * old.target_rate:g} %, {old.num_images} images)",
        f"new bias {new.bias:.4f}: {percent(new.known_rate)} % of {new.num_images} images stay known (target "
        f"{100 * new.target_rate:g} %); of new images of their kind {percent(low)} to {percent(high)} %, with 95 % "
        "confidence",
    ]
