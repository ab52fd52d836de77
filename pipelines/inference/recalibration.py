"""`proser calibrate`: a new bias for a registered model, from known images of a user's own, without any training."""

import tempfile
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from pipelines.console import say
from pipelines.inference.labelled_folder import class_folders, score_folder, told
from pipelines.tracking.model_card import MODEL_CARD, recalibrated_card
from pipelines.tracking.models import Model, load
from pipelines.tracking.registry import CALIBRATED_FROM, Registered, register, run_of_its_own
from pipelines.tracking.server import connect
from proser_core.digests import sha256_of
from proser_core.errors import ConfigError, DataError, TrackingError
from proser_core.recognition.calibration import Calibration, calibrate
from proser_core.recognition.open_set_classifier import CARD, OpenSetClassifier
from proser_core.titles import percent


@dataclass(frozen=True)
class CalibrateRequest:
    """A registered model, a folder of images of its known classes, and the share of them that is to stay known."""

    model: str
    data: Path
    target_rate: float = 0.95
    device: str = "cpu"


def calibrate_model(request: CalibrateRequest, console: Console) -> int:
    """Register a version with the new bias; exit code 1 where images were left out.

    Raises DataError for images of other classes, ConfigError for a rate that so few images cannot tell.
    """
    if not 0 < request.target_rate < 1:
        raise ConfigError(f"--target-rate got {request.target_rate:g}; need a fraction between 0 and 1, such as 0.99")
    model = load(request.model)
    if model.version is None:
        raise TrackingError(
            f"{request.model} is a folder; a new version needs a registered model, models:/NAME/VERSION"
        )
    strangers = sorted(set(class_folders(request.data)) - set(model.classifier.class_names))
    if strangers:
        raise DataError(
            f"{request.data} has a folder {strangers[0]!r}, and {model.title} knows "
            f"{', '.join(model.classifier.class_names)}; a calibration takes known images alone"
        )
    scored = score_folder(model.classifier, request.data, request.device)
    needed = round(1 / (1 - request.target_rate))
    if len(scored.logits) < needed:
        raise ConfigError(
            f"--target-rate {request.target_rate:g} and {len(scored.logits)} images got; need {needed} at least, so "
            "that one of them may be called unknown. Give more images or a lower rate"
        )
    calibration = calibrate(model.classifier.score_function(scored.logits), request.target_rate)
    proxy = model.classifier.proxy
    if proxy is not None:  # it is calibrated by the same rule, on its own images
        known = proxy.validation_scores.scores[proxy.validation_scores.is_known]
        proxy = replace(proxy, bias=calibrate(known, request.target_rate).bias)
    registered = _register(model, replace(model.classifier, calibration=calibration, proxy=proxy), request.data)
    for line in (*_summary(model, calibration), *told(scored.failures)):
        say(console, line)
    say(console, f"Model: models:/{registered.name}/{registered.version} (candidate)")
    return 1 if scored.failures else 0


def _summary(model: Model, new: Calibration) -> list[str]:
    old, (low, high) = model.classifier.calibration, new.interval
    return [
        f"{model.title}: bias {old.bias:.4f} (target {100 * old.target_rate:g} %, {old.num_images} images)",
        f"new bias {new.bias:.4f}: {percent(new.known_rate)} % of {new.num_images} images stay known (target "
        f"{100 * new.target_rate:g} %); of new ones of their kind {percent(low)} to {percent(high)} %, with 95 % "
        "confidence",
    ]


def _register(model: Model, classifier: OpenSetClassifier, data: Path) -> Registered:
    version = model.version
    assert version is not None
    client = connect()
    calibration = classifier.calibration
    run = run_of_its_own(client, f"calibrate: {model.title} on {data.name}")
    with run as run_id, tempfile.TemporaryDirectory() as place:
        client.log_metric(run_id, "calibration/bias", calibration.bias)
        client.log_metric(run_id, "calibration/known_rate", calibration.known_rate)
        client.log_param(run_id, "target_rate", calibration.target_rate)
        client.log_param(run_id, "num_images", calibration.num_images)
        folder = Path(place)
        classifier.save(folder)
        (folder / MODEL_CARD).write_text(recalibrated_card(classifier, model.card, model.title))
        tags = {"proser.recipe": version.tags.get("proser.recipe", ""), CALIBRATED_FROM: version.number}
        return register(client, nullcontext(run_id), version.name, folder, sha256_of(folder / CARD), tags)
