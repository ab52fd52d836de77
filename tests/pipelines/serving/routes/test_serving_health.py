"""What `proser serve` tells those that watch it: health and metrics."""

import json
import os
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families
from served_models import LIMITS, Start, as_json, ask, get, half_sent, tensor
from waiting import PATIENCE_S, until

from pipelines.serving import arriving_requests, batching, image_bodies
from proser_core.recognition.open_set_classifier import OpenSetClassifier


class TestHealth:
    def test_a_server_that_is_full_is_live_and_not_ready(self, start: Start, encoded: list[bytes]) -> None:
        """With one request that waits for the rest of its body."""
        address = start(max_waiting=1)
        half = half_sent(address, encoded[0])
        until(lambda: get(f"{address}/v2/health/ready")[0] != 200)
        assert get(f"{address}/v2/health/live") == (200, '{"live":true}')
        with pytest.raises(HTTPError) as refused:
            urlopen(f"{address}/predict", encoded[1])
        assert (refused.value.code, refused.value.headers["Retry-After"]) == (503, "1")
        assert "--max-waiting" in refused.value.read().decode()
        half.send(encoded[0][10:])
        assert half.getresponse().status == 200
        assert get(f"{address}/v2/health/ready") == (200, '{"ready":true}')

    def test_a_model_in_a_folder_whose_name_is_not_utf_8_is_named_and_counted(
        self, start: Start, classifier: OpenSetClassifier, encoded: list[bytes], tmp_path: Path
    ) -> None:
        folder = tmp_path / os.fsdecode(b"mod\xffel")
        classifier.save(folder)
        address = start(model=str(folder))
        assert ask(f"{address}/predict", encoded[0], "image/png")[1]["model"] == "mod\\xffel"
        assert [get(f"{address}{path}")[0] for path in ("/", "/metrics")] == [200, 200]

    @pytest.mark.parametrize(
        ("of", "name", "threads"),
        [(image_bodies, "decode_square", 2), (OpenSetClassifier, "predict", 1)],
        ids=["image", "batch"],
    )
    def test_a_client_that_has_left_makes_room_and_is_not_worked_for(
        self, start: Start, encoded: list[bytes], monkeypatch: pytest.MonkeyPatch, of: Any, name: str, threads: int
    ) -> None:
        """Others keep all threads busy until it has left."""
        monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
        address, free, real, worked = start(max_waiting=threads + 1), threading.Event(), getattr(of, name), []

        def hold(*given: Any) -> Any:
            worked.append(given)
            return free.wait(PATIENCE_S) and real(*given)

        monkeypatch.setattr(of, name, hold)
        with ThreadPoolExecutor(threads) as clients:
            asked = [clients.submit(ask, f"{address}/predict", file, "image/png") for file in encoded[:threads]]
            until(lambda: len(worked) == threads or any(each.done() for each in asked))
            assert not any(each.done() for each in asked)
            host, _, port = address.removeprefix("http://").partition(":")
            with socket.create_connection((host, int(port))) as client:
                head = f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(encoded[-1])}\r\n\r\n"
                client.sendall(head.encode() + encoded[-1])
                until(lambda: get(f"{address}/v2/health/ready")[0] != 200)
            until(lambda: get(f"{address}/v2/health/ready")[0] != 503 or any(each.done() for each in asked))
            assert not any(each.done() for each in asked)
            free.set()
            assert [each.result()[0] for each in asked] == [200] * threads
        assert len(worked) == threads
        assert re.search(r'proser_requests_total\{.*status="499".*\} 1', get(f"{address}/metrics")[1])

    @pytest.mark.parametrize(
        ("of", "name"), [(image_bodies, "decode_square"), (OpenSetClassifier, "predict")], ids=["image", "batch"]
    )
    def test_an_image_or_a_batch_that_hangs_is_not_live(
        self, start: Start, encoded: list[bytes], monkeypatch: pytest.MonkeyPatch, of: Any, name: str
    ) -> None:
        address, free, real = start(), threading.Event(), getattr(of, name)
        with ThreadPoolExecutor(1) as client, monkeypatch.context() as patch:
            patch.setattr(of, name, lambda *given: free.wait(PATIENCE_S) and real(*given))
            patch.setattr(batching, "WORK_TIMEOUT_S", 0.01)
            asked = client.submit(ask, f"{address}/predict", encoded[0], "image/png")
            until(lambda: get(f"{address}/health")[0] != 200 or asked.done())
            assert not asked.done()
            assert self.probes(address) == [503, 503, 503]
            free.set()
            assert asked.result()[0] == 200
        assert self.probes(address) == [200, 200, 200]

    def test_a_device_that_fails_is_not_live_until_it_works_again(
        self, start: Start, encoded: list[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        address = start()
        with monkeypatch.context() as patch:
            patch.setattr(OpenSetClassifier, "predict", _fails)
            for path, body, name in (
                ("predict", as_json(encoded[:1]), "detail"),
                ("v2/models/digits%20model/infer", tensor(encoded[:1]), "error"),
            ):
                status, answer = ask(f"{address}/{path}", body)
                assert (status, list(answer)) == (500, [name])
            assert self.probes(address) == [503, 503, 503]
            assert json.loads(get(f"{address}/health")[1])["status"] == "broken"
        assert ask(f"{address}/predict", encoded[0], "image/png")[0] == 200
        assert self.probes(address) == [200, 200, 200]

    def probes(self, address: str) -> list[int]:
        return [get(f"{address}/{path}")[0] for path in ("health", "v2/health/live", "v2/health/ready")]

    def test_requests_hold_so_many_bytes_together_and_one_by_itself_any_number(
        self, start: Start, encoded: list[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of bodies, and of decoded images."""
        address, file = start(), encoded[0]
        monkeypatch.setattr(arriving_requests, "MAX_HELD_BYTES", len(file) + 100)
        assert ask(f"{address}/predict", as_json(encoded[:4]))[0] == 200
        half = half_sent(address, file)
        until(lambda: ask(f"{address}/predict", file, "image/png")[0] != 200)
        for body in (as_json([file]), as_json(encoded[:4])):
            status, answer = ask(f"{address}/predict", body)
            assert (status, "MB of requests at a time" in answer["detail"]) == (503, True)
        assert get(f"{address}/v2/health/ready")[0] == 503
        most = LIMITS.max_bytes + 3 * LIMITS.max_images * 8 * 8  # of the next request, at the model's size
        for count, status in ((9 + most, 503), (10 + most, 200)):  # half of a file is ten bytes
            monkeypatch.setattr(arriving_requests, "MAX_HELD_BYTES", count)
            assert get(f"{address}/v2/health/ready")[0] == status
        half.send(file[10:])
        assert half.getresponse().status == 200
        assert get(f"{address}/v2/health/ready")[0] == 200
        assert ask(f"{address}/predict", as_json(encoded[:4]))[0] == 200


def _fails(*_: object) -> None:
    raise torch.AcceleratorError("CUDA error: device-side assert triggered")


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
        known = classifier.validation_scores.known_scores + classifier.calibration.bias
        assert values["proser_validation_unknown_score_count", "version="] == len(known)
        assert values["proser_validation_unknown_score_bucket", "le=0.0", "version="] == (known <= 0).sum()

    def test_a_client_that_leaves_before_its_body_is_sent_is_no_fault_of_the_server(
        self, start: Start, caplog: pytest.LogCaptureFixture
    ) -> None:
        address = start()
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100000\r\n\r\nabc".encode())
        until(lambda: 'route="/predict"' in get(f"{address}/metrics")[1])
        assert re.search(r'proser_requests_total\{.*route="/predict".*status="499".*\} 1', get(f"{address}/metrics")[1])
        assert not caplog.records
