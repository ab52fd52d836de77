"""`proser drift`: whether new, unlabelled images still look to a model like the validation images of its training."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from scipy.stats import binomtest, ks_2samp

from pipelines.console import say
from pipelines.inference.contact_sheet import check_picture, write_picture
from pipelines.inference.labelled_folder import check_device, told
from pipelines.inference.predicting import answers_here
from pipelines.progress import ProgressBar
from pipelines.tracking.models import load
from proser_core.data.readers.image_files import Failure, Found, absolute, check_paths, count_images
from proser_core.errors import DataError
from proser_core.titles import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVEL = 0.01  # chance of a false alarm on images of the same kind


@dataclass(frozen=True)
class Drift:
    """Unknown share of N new images with its 95 % interval, that of the validation images, and the largest distance
    between the distributions of their scores (Kolmogorov and Smirnov), with its p value."""

    count: int
    unknown_share: float
    interval: tuple[float, float]
    expected_share: float
    distance: float
    p_value: float

    @property
    def drifted(self) -> bool:
        """Whether the scores differ by more than chance would have it."""
        return self.p_value < LEVEL


def measure_drift(new: np.ndarray, validation: np.ndarray, bias: float) -> Drift:
    """Scores float[N] of new images against those float[M] of the validation images, all of known classes."""
    unknown = int((new > -bias).sum())
    interval = binomtest(unknown, len(new)).proportion_ci(0.95, method="wilson")
    test = ks_2samp(new, validation)
    return Drift(
        count=len(new),
        unknown_share=unknown / len(new),
        interval=(float(interval.low), float(interval.high)),
        expected_share=float((validation > -bias).mean()),
        distance=float(test.statistic),
        p_value=float(test.pvalue),
    )


def drift(model_uri: str, paths: Sequence[str], figure_path: Path | None, device: str, console: Console) -> int:
    """Print what differs, and draw it; exit code 1 where images were left out.

    Raises DataError where the model does not say what it made of its validation images.
    """
    check_device(device)
    check_picture(figure_path, "--figure")
    found_images = Found(outputs=absolute(figure_path))
    check_paths(paths, found_images)
    model = load(model_uri)
    held_out, bias = model.classifier.validation_scores, model.classifier.calibration.bias
    if held_out is None:
        raise DataError(f"{model.title} does not say what it made of its validation images; register it again")
    scores, failures, done = [], list[Failure](), 0
    progress = ProgressBar(console, "drift", count_images(paths, found_images), "images")
    try:
        for part in answers_here(model.classifier, paths, found_images, device):
            scores.append(part.predictions.unknown_scores - bias)
            failures += part.failures
            done += len(part.names) + len(part.failures)
            progress.update(done)
    finally:
        progress.close()
    new = np.concatenate(scores)
    if not len(new):
        raise DataError(f"none of the {len(failures)} images can be decoded; {failures[0].reason}")
    validation = held_out.scores[held_out.is_known]
    found = measure_drift(new, validation, bias)
    lines = _told(found, model.title)
    if figure_path is not None:
        write_picture(drift_figure(new, validation, bias, model.classifier.score_function.formula), figure_path)
        lines.append(f"written: {figure_path}")
    for line in (*lines, *told(failures)):
        say(console, line)
    return 1 if failures else 0


def drift_figure(new: np.ndarray, validation: np.ndarray, bias: float, formula: str) -> "Figure":
    """Both distributions of scores, and the threshold."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    bins = np.histogram_bin_edges(np.concatenate([new, validation]), 40).tolist()
    label = f"{len(new):,} new images"
    axes.hist(validation, bins, density=True, color="0.75", label=f"{len(validation):,} validation images")
    axes.hist(new, bins, density=True, histtype="step", color="#d55e00", linewidth=1.8, label=label)
    axes.axvline(-bias, color="0.2", linestyle="--", linewidth=1, label="threshold: unknown to the right")
    axes.set_xlabel(f"score: {formula}")
    axes.set_ylabel("density")
    axes.legend(frameon=False)
    return figure


def _told(found: Drift, title: str) -> list[str]:
    low, high = found.interval
    verdict = (
        f"the images differ from those: scores are {found.distance:.3f} apart (p {found.p_value:.1g}). Look at them, "
        "calibrate anew where they are of known classes, or train again"
        if found.drifted
        else f"no difference beyond chance: scores are {found.distance:.3f} apart (p {found.p_value:.2g})"
    )
    return [
        f"{title}: {percent(found.unknown_share)} % of {found.count:,} images are called unknown (95 % interval "
        f"{percent(low)} to {percent(high)} %); of its validation images, all known, {percent(found.expected_share)} %",
        verdict,
    ]
