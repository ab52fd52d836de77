"""`proser drift MODEL PATH ...`: test whether new images look like a model's validation images."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console

from pipelines.commands.model_options import Device, ImagePaths, Model, chosen_device, ignored_lines, skipped_lines
from pipelines.commands.parsing import parse
from pipelines.console import console, say
from pipelines.output_files import PICTURE_ENDINGS, check_output, write_picture
from pipelines.progress import ProgressBar
from proser_core.data.decoding import Failure
from proser_core.data.readers.image_files import Outputs, check_paths, count_images, written_to
from proser_core.errors import DataError
from proser_core.titles import counted, percent

if TYPE_CHECKING:
    from pipelines.inference.drift import Drift
    from proser_core.recognition.open_set_classifier import OpenSetClassifier


@dataclass(frozen=True)
class DriftRequest:
    """Compare new, unlabelled images with the validation images of a model's training: the share that the model calls
    unknown, and the distribution of the scores."""

    model: Model
    paths: ImagePaths
    figure: Path | None = None
    """Picture (.png, .pdf, .svg, .jpg) of both distributions."""
    device: Device = "auto"


def main(arguments: list[str]) -> int:
    """Compare."""
    return drift(parse(DriftRequest, "drift", arguments), console())


def drift(request: DriftRequest, console: Console) -> int:
    """Print and draw the comparison; exit code 1 where images were skipped. Raises DataError where the model has no
    record of its validation images."""
    from pipelines.inference.drift import drift_figure, measure_drift  # these load torch and mlflow: not for --help
    from pipelines.tracking.models import load

    device = chosen_device(request.device, console)
    check_output(request.figure, "--figure", PICTURE_ENDINGS)
    outputs = written_to(request.figure)
    check_paths(request.paths, outputs)
    model = load(request.model)
    recorded, bias = model.classifier.validation_scores, model.classifier.calibration.bias
    if recorded is None:
        raise DataError(f"{model.title} has no record of its validation images; register it again")
    found = count_images(request.paths, outputs)
    with ProgressBar(console, "drift", found.count, "images", "reading images") as progress:
        new, failures = _scores(model.classifier, request.paths, outputs, device, progress.update)
    validation = recorded.known_scores + bias
    lines = _lines(measure_drift(new, validation), model.title)
    for line in (*ignored_lines(found), *lines, *skipped_lines(failures)):
        say(console, line)
    if request.figure is not None:
        formula = model.classifier.score_function.formula
        write_picture(drift_figure(new, validation, formula, model.title), request.figure)
        say(console, f"written: {request.figure}")
    return 1 if failures else 0


def _scores(
    classifier: "OpenSetClassifier", paths: ImagePaths, outputs: Outputs, device: str, report: Callable[[int], None]
) -> tuple[np.ndarray, list[Failure]]:
    """Unknown scores float[N] of the images, and those that were skipped. Raises DataError where all of them were."""
    from pipelines.inference.predictions import predict_part, read_images  # these load torch

    scores, failures = [], list[Failure]()
    for part in read_images(paths, classifier.image_size, report, outputs):
        scores.append(predict_part(classifier, part, device).predictions.unknown_scores)
        failures += part.failures
    return np.concatenate(scores), failures


def _lines(found: "Drift", title: str) -> Iterator[str]:
    from pipelines.inference.drift import LEVEL

    low, high = found.interval
    distance = f"distance {found.distance:.3f}"
    yield (
        f"{title}: {percent(found.unknown_share)} % of {counted(found.count, 'new image')} called unknown (95 % "
        f"interval {percent(low)} to {percent(high)} %); of {counted(found.validation, 'validation image')}, all of "
        f"known classes, {percent(found.expected_share)} %"
    )
    if found.drifted:
        yield (
            f"drift: the scores differ ({distance}, p {found.p_value:.1g}, below {LEVEL}). Look at the "
            "images; calibrate again where they are of known classes, or train again"
        )
    else:
        yield f"no drift shown by these images ({distance}, p {found.p_value:.2g}, not below {LEVEL})"
        least = f"{found.least_shown:.2f}"
        yield f"  with this many images drift shows from a distance of about {least} on; more images show less"
