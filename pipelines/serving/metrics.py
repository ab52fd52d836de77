"""What `/metrics` shows to Prometheus: requests, batches, and live drift."""

import time
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.samples import Sample
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pipelines.serving.served_model import name_of
from pipelines.tracking.models import LoadedModel
from proser_core.recognition.open_set_classifier import Predictions

SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
BATCHES = tuple(2.0**power for power in range(8))
STEPS = tuple(2.0**power for power in range(-6, 6))
SCORE_BOUNDS = (*(-step for step in reversed(STEPS)), 0.0, *STEPS)
"""For the scores of any method: finest at the threshold, which is 0."""


class Metrics:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._registry = to = CollectorRegistry()
        self._requests = Counter("proser_requests", "Answered requests.", ("route", "status"), registry=to)
        self._seconds = Histogram(
            "proser_request_seconds", "From a request to its answer.", ("route",), registry=to, buckets=SECONDS
        )
        self._batches = Histogram("proser_batch_images", "Images of a batch.", registry=to, buckets=BATCHES)
        self._version = Gauge("proser_model_version", "1 for the served version.", ("model", "version"), registry=to)
        self._images = Counter("proser_images", "Classified images.", ("version", "decision"), registry=to)
        self._scores = Histogram(
            "proser_unknown_score", "Above 0 is unknown.", ("version",), registry=to, buckets=SCORE_BOUNDS
        )
        self._expected = Histogram(
            "proser_validation_unknown_score",
            "The same of the known validation images, as they were scored when the model was trained.",
            ("version",),
            registry=to,
            buckets=SCORE_BOUNDS,
        )

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def batch(self, images: int) -> None:
        """Count a batch that goes to the network."""
        self._batches.observe(images)

    def classified(self, served: LoadedModel, predictions: Predictions) -> None:
        """The images of one request."""
        unknown = int((predictions.indices == len(served.classifier.class_names)).sum())
        for decision, count in (("unknown", unknown), ("known", len(predictions.indices) - unknown)):
            self._images.labels(served.number, decision).inc(count)
        _observe(self._scores, served.number, predictions.unknown_scores)

    def serves(self, served: LoadedModel) -> None:
        """A version takes over."""
        self._version.clear()
        self._version.labels(name_of(served), served.number).set(1)
        expected, bias = served.classifier.validation_scores, served.classifier.calibration.bias
        self._expected.clear()
        if expected is not None:
            _observe(self._expected, served.number, expected.known_scores + bias)

    def collect(self) -> list[Metric]:
        """All values of this moment."""
        return list(self._registry.collect())


def _observe(histogram: Histogram, version: str, scores: np.ndarray) -> None:
    of_version = histogram.labels(version)
    for score in scores.tolist():
        of_version.observe(score)


class Counted:
    """ASGI middleware that counts answers by route, as it is declared, and by status."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            return await self._app(scope, receive, sending)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.request(route, status, time.perf_counter() - started)


def exposition(by_replica: Mapping[str, Sequence[Metric]]) -> bytes:
    """Prometheus' text format of the metrics of all replicas, each with its replica as a label."""
    together: dict[str, Metric] = {}
    for replica, metrics in by_replica.items():
        for metric in metrics:
            family = together.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
            family.samples += [
                Sample(sample.name, {**sample.labels, "replica": replica}, sample.value)
                for sample in metric.samples
                if not sample.name.endswith("_created")
            ]
    return generate_latest(SimpleNamespace(collect=together.values))
