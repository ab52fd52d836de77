"""A new bias for a registered model, from a user's own known images; nothing is trained."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pipelines.tracking.models import LoadedModel
from pipelines.tracking.registry import Registered, register
from pipelines.tracking.runs import TRIAL_KEY, run_of_its_own
from pipelines.tracking.server import connect
from pipelines.tracking.trial_runs import metric_list, param_list
from pipelines.tracking.versions import CALIBRATED_FROM, CHOSEN_AMONG
from proser_core.digests import sha256_of
from proser_core.recognition.calibration import calibrate
from proser_core.recognition.classifier_files import CARD
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.store.files import absolute


def recalibrated(classifier: OpenSetClassifier, logits: LogitTable, target_rate: float) -> OpenSetClassifier:
    """The classifier with the bias that accepts `target_rate` of these known images; its proxy by the same rule, on the
    proxy's own images."""
    proxy = classifier.proxy
    if proxy is not None:
        proxy = replace(proxy, bias=calibrate(proxy.validation_scores.known_scores, target_rate).bias)
    return replace(classifier, calibration=calibrate(classifier.score_function(logits), target_rate), proxy=proxy)


def register_recalibrated(model: LoadedModel, classifier: OpenSetClassifier, data: Path) -> Registered:
    """Register the classifier as a new version of the model, with a run for its calibration on the images of `data`."""
    version = model.version
    assert version is not None
    client, calibration = connect(), classifier.calibration

    @contextmanager
    def calibration_run(digest: str) -> Iterator[str]:
        title = f"calibrate: {model.title} on {Path(absolute(data)).name}"
        key = {TRIAL_KEY: f"calibrate-{version.name}-{digest[:16]}"}
        with run_of_its_own(client, title, key) as run_id:
            measured = {"bias": calibration.bias, "known_rate": calibration.known_rate}
            metrics = metric_list(measured, "calibration/", client.get_run(run_id).info.start_time)
            params = param_list({"target_rate": calibration.target_rate, "num_images": calibration.num_images})
            client.log_batch(run_id, metrics, params)
            yield run_id

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        classifier.save(folder)
        digest = sha256_of(folder / CARD)
        tags = {"proser.recipe": version.tags.get("proser.recipe", ""), CALIBRATED_FROM: version.number}
        if CHOSEN_AMONG in version.tags:
            tags[CHOSEN_AMONG] = version.tags[CHOSEN_AMONG]
        return register(client, calibration_run(digest), version.name, folder, digest, tags)
