"""What `proser serve` tells those that watch it: health and metrics."""

import http.client
import re
import socket

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from served_models import Start, as_json, ask, get

from proser_core.recognition.open_set_classifier import OpenSetClassifier


class TestHealth:
    def test_a_server_that_is_full_is_live_and_not_ready(self, start: Start, encoded: list[bytes]) -> None:
        """With one request that waits for the rest of its body."""
        address = start(max_waiting=1)
        half = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
        half.putrequest("POST", "/predict")
        half.putheader("Content-Length", str(len(encoded[0])))
        half.endheaders(encoded[0][:10])
        while get(f"{address}/v2/health/ready")[0] == 200:
            pass
        assert get(f"{address}/v2/health/live") == (200, '{"live":true}')
        status, answer = ask(f"{address}/predict", encoded[1], "image/png")
        assert (status, "--max-waiting" in answer["detail"]) == (503, True)
        half.send(encoded[0][10:])
        assert half.getresponse().status == 200
        assert get(f"{address}/v2/health/ready") == (200, '{"ready":true}')

    def test_a_batch_that_hangs_is_not_live(self, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        address = start()
        monkeypatch.setattr("pipelines.serving.batching.Batcher.check", _hangs)
        assert [get(f"{address}/v2/health/{name}")[0] for name in ("live", "ready")] == [503, 503]


def _hangs(batcher: object) -> None:
    raise RuntimeError("hangs")


class TestMetrics:
    def test_requests_batches_decisions_and_scores_are_counted(
        self, start: Start, classifier: OpenSetClassifier, pixels: np.ndarray, encoded: list[bytes]
    ) -> None:
        address = start()
        ask(f"{address}/predict", as_json(encoded[:16]))
        ask(f"{address}/predict", b"no image", "image/png")
        get(f"{address}/nowhere")
        values = {
            (sample.name, *sorted(f"{k}={v}" for k, v in sample.labels.items() if k != "replica")): sample.value
            for family in text_string_to_metric_families(get(f"{address}/metrics")[1])
            for sample in family.samples
        }
        want = classifier.predict(pixels[:16])
        unknown = int((want.indices == len(classifier.class_names)).sum())
        assert values["proser_requests_total", "route=/predict", "status=200"] == 1
        assert values["proser_requests_total", "route=/predict", "status=422"] == 1
        assert values["proser_requests_total", "route=other", "status=404"] == 1
        assert values["proser_request_seconds_count", "route=/predict"] == 2
        assert (values[("proser_batch_images_count",)], values[("proser_batch_images_sum",)]) == (1, 16)
        assert values["proser_model_version", "model=digits model", "version="] == 1
        assert values["proser_images_total", "decision=unknown", "version="] == unknown
        assert values["proser_images_total", "decision=known", "version="] == 16 - unknown
        assert values["proser_unknown_score_bucket", "le=0.0", "version="] == 16 - unknown
        assert classifier.validation_scores is not None
        known = classifier.validation_scores.is_known.sum()
        assert values["proser_validation_unknown_score_count", "version="] == known

    def test_a_client_that_leaves_before_its_body_is_sent_is_no_fault_of_the_server(
        self, start: Start, caplog: pytest.LogCaptureFixture
    ) -> None:
        address = start()
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100000\r\n\r\nabc".encode())
        while 'route="/predict"' not in (text := get(f"{address}/metrics")[1]):
            pass
        assert re.search(r'proser_requests_total\{.*route="/predict".*status="400".*\} 1', text)
        assert not caplog.records
