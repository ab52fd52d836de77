"""`proser serve`: one answer with the library, refusals with a reason, and the version that an alias moves to."""

import io
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest
from ray_nodes import running
from registered_models import Registry
from rich.console import Console
from served_models import JSON, as_json, ask, assert_as_predicted, environment_of, large_image
from waiting import PATIENCE_S, until

from pipelines.commands.serve import ServeRequest, serve
from pipelines.ports import free_ports
from pipelines.serving.limits import Limits
from proser_core.errors import ConfigError
from proser_core.recognition.open_set_classifier import OpenSetClassifier

URI = "models:/served@champion"
HANGS = """
import sys, time
from pipelines import cli
from pipelines.serving import recogniser
from proser_core.recognition.open_set_classifier import OpenSetClassifier

def hang(classifier, pixels, device):
    return time.sleep(3600) if pixels.any() else predict(classifier, pixels, device)

predict, OpenSetClassifier.predict, recogniser.WORK_TIMEOUT_S = OpenSetClassifier.predict, hang, 0.1
sys.exit(cli.main())
"""
"""The command with a network that loads, and hangs on an image."""


@dataclass(frozen=True)
class Server:
    """A running `proser serve`: its process, its address, and the registry behind it."""

    process: subprocess.Popen[str]
    address: str
    registry: Registry
    log: Path

    def ask(self, content: Any, kind: str = JSON) -> tuple[int, Any]:
        return ask(f"{self.address}/predict", content, kind)


@pytest.fixture(scope="module")
def server(
    classifier: OpenSetClassifier,
    tmp_path_factory: pytest.TempPathFactory,
    patch: pytest.MonkeyPatch,
    empty_programs: None,
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serving")
    environment = environment_of(classifier, folder, "served", patch)
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "pipelines.cli", "serve", URI, "--port", str(port), "--reload-pause", "0.2"]
    command += ["--max-images", "16", "--max-megabytes", "0.2", "--max-megapixels", "0.01"]
    address, log = f"http://127.0.0.1:{port}", folder / "log"
    with running(command, environment, log, f"{address}/health") as process:
        yield Server(process, address, Registry(folder, "served"), log)


def as_table(answer: dict[str, Any]) -> pd.DataFrame:
    """As the library has it."""
    rows = [{name: row[name] for name in row if name != "nearest_class"} for row in answer["predictions"]]
    probabilities = [{f"p_{name}": value for name, value in row.pop("probabilities").items()} for row in rows]
    return pd.concat([pd.DataFrame(rows), pd.DataFrame(probabilities)], axis=1)


def get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
        return json.load(answer)


class TestServer:
    def test_several_images_at_once_get_the_librarys_answer(
        self, server: Server, classifier: OpenSetClassifier, pixels: np.ndarray, encoded: list[bytes]
    ) -> None:
        for begin in range(0, len(encoded), 16):
            status, answer = server.ask(as_json(encoded[begin : begin + 16]))
            assert status == 200, answer
            assert (answer["model"], answer["version"]) == ("served version 1", "1")
            assert_as_predicted(as_table(answer), classifier, pixels[begin : begin + 16])

    def test_requests_that_come_together_get_each_its_own_answer(
        self, server: Server, classifier: OpenSetClassifier, pixels: np.ndarray, encoded: list[bytes]
    ) -> None:
        with ThreadPoolExecutor(16) as clients:
            answers = list(clients.map(lambda file: server.ask(file, "image/png"), encoded))
        assert {status for status, _ in answers} == {200}
        together = {"predictions": [row for _, answer in answers for row in answer["predictions"]]}
        assert_as_predicted(as_table(together), classifier, pixels)

    def test_bad_requests_are_refused_while_good_ones_go_on(self, server: Server, encoded: list[bytes]) -> None:
        refused = [
            (413, as_json(encoded[:17]), JSON, "got 17 images; need 16 or fewer"),
            (413, b'{"images": [' + b"{}," * 33 + b"{}]}", JSON, "got JSON of up to 69 values; need 16 images"),
            (413, b"x" * 200_001, "image/png", "need 0.2 MB or less"),
            (413, large_image(), "image/png", "got 0.0 megapixels in 1 image; need 0.01"),
            (415, b"--x", "multipart/mixed; boundary=x", "got multipart/mixed"),
            (422, b"no image", "image/png", "it is none of BMP"),
            (422, b"no image", "application/x-www-form-urlencoded", "remove it. With curl, send it with --data-binary"),
            (400, b"{", JSON, "is not JSON"),
        ]
        with ThreadPoolExecutor(8) as clients:
            good = [clients.submit(server.ask, file, "image/png") for file in encoded]
            for status, content, kind, reason in refused:
                got, answer = server.ask(content, kind)
                assert (got, reason in answer["detail"]) == (status, True), answer
            assert {each.result()[0] for each in good} == {200}

    def test_the_server_tells_what_it_serves(self, server: Server, classifier: OpenSetClassifier) -> None:
        about = get(f"{server.address}/")
        assert about["classes"] == list(classifier.class_names)
        assert (about["max_images"], about["problem"]) == (16, "")
        assert get(f"{server.address}/health")["status"] == "ok"
        for path in ("/health", "/"):
            with urllib.request.urlopen(urllib.request.Request(f"{server.address}{path}", method="HEAD")) as answer:
                assert (answer.status, answer.read()) == (200, b"")

    def test_the_alias_moves_under_load_without_a_failed_request(
        self, server: Server, classifier: OpenSetClassifier, pixels: np.ndarray, encoded: list[bytes]
    ) -> None:
        stricter = replace(classifier, calibration=replace(classifier.calibration, bias=-1e6))  # all known
        version = server.registry.add(stricter).version
        stop, seen = threading.Event(), []

        def client(file: bytes) -> None:
            while not stop.is_set():
                seen.append(server.ask(file, "image/png"))

        with ThreadPoolExecutor(4) as clients:
            running = [clients.submit(client, file) for file in encoded[:4]]
            try:
                until(lambda: any(answer.get("version") == "1" for _, answer in seen))
                server.registry.client.set_registered_model_alias("served", "champion", version)
                until(lambda: any(answer.get("version") == version for _, answer in seen[-4:]))
                time.sleep(0.5)
            finally:
                stop.set()
            for each in running:
                each.result()
        assert {status for status, _ in seen} == {200}
        assert {answer["version"] for _, answer in seen} == {"1", version}
        until(lambda: "now served version 2" in server.log.read_text(), log=server.log.read_text)
        after = [row for _, answer in seen if answer["version"] == version for row in answer["predictions"]]
        assert len(after) > 0
        assert not any(row["unknown"] for row in after)

    def test_health_is_answered_while_many_wait(self, server: Server, encoded: list[bytes]) -> None:
        with ThreadPoolExecutor(200) as clients:
            asked = [clients.submit(server.ask, file, "image/png") for file in encoded * 4]
            assert get(f"{server.address}/v2/health/ready") == {"ready": True}
            assert {each.result()[0] for each in asked} == {200}

    @pytest.mark.slow
    def test_sigterm_ends_it_cleanly(self, server: Server) -> None:
        """Last: the server is gone afterwards."""
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE_S) == 0
        assert "Traceback" not in server.log.read_text()
        assert "served version 1: 5 classes, and unknown" in server.log.read_text()


def test_one_process_reads_its_model_once_and_an_ipv6_address_is_printed_as_a_url_has_it(
    classifier: OpenSetClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier.save(tmp_path / "model")
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")
    read, load = [], OpenSetClassifier.load
    monkeypatch.setattr(OpenSetClassifier, "load", lambda place: read.append(place) or load(place))
    (port,), out, ended = free_ports(1), io.StringIO(), threading.Event()

    def stop() -> None:
        deadline = time.monotonic() + PATIENCE_S
        while "stop with" not in out.getvalue() and time.monotonic() < deadline and not ended.is_set():
            time.sleep(0.01)
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)  # in any case: the server does not end by itself

    threading.Thread(target=stop, daemon=True).start()
    request = ServeRequest(str(tmp_path / "model"), host="::1", port=port)
    try:
        with suppress(KeyboardInterrupt):  # of a server that did not listen to signals yet
            assert serve(request, Console(file=out, width=200)) == 0
    finally:
        ended.set()
    assert (
        f"model: 5 classes, and unknown\nhttp://[::1]:{port}  (for programs: http://[::1]:{port}/predict;"
        in out.getvalue()
    )
    assert read == [tmp_path / "model"]


@pytest.mark.slow
def test_a_server_whose_batch_hangs_says_so_and_ends(
    classifier: OpenSetClassifier, encoded: list[bytes], tmp_path: Path
) -> None:
    classifier.save(tmp_path / "model")
    (port,) = free_ports(1)
    command = [sys.executable, "-c", HANGS, "serve", str(tmp_path / "model"), "--port", str(port), "--max-seconds", "1"]
    address, log = f"http://127.0.0.1:{port}", tmp_path / "log"
    with running(command, dict(os.environ), log, f"{address}/health") as process, ThreadPoolExecutor(1) as client:
        client.submit(ask, f"{address}/predict", encoded[0], "image/png")
        batches = re.compile(rb"proser_batch_images_sum\{.*\} 1")
        until(lambda: batches.search(urllib.request.urlopen(f"{address}/metrics").read()), process)
        until(lambda: "stop with Ctrl-C" in log.read_text(), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 1
    assert "a batch or the decoding of a request hangs; the server ends without its answer" in log.read_text()


@pytest.mark.slow
def test_replicas_answer_and_are_counted_each(
    server: Server, classifier: OpenSetClassifier, pixels: np.ndarray, encoded: list[bytes], tmp_path: Path
) -> None:
    """Under Ray Serve behind HAProxy, with a token, whose file names it alone."""
    (port,) = free_ports(1)
    (tmp_path / "token").write_text("secret")
    command = [sys.executable, "-m", "pipelines.cli", "serve", "models:/served/1", "--port", str(port)]
    command += ["--replicas", "1-2", "--max-images", "16", "--token-file", str(tmp_path / "token")]
    address, log = f"http://127.0.0.1:{port}", tmp_path / "log"
    with running(command, dict(os.environ), log, f"{address}/health") as process:
        assert ask(f"{address}/predict", encoded[0], "image/png")[0] == 401
        assert "haproxy" in {each.name() for each in psutil.Process(process.pid).children(recursive=True)}
        request = urllib.request.Request(f"{address}/predict", json.dumps(as_json(encoded[:16])).encode())
        request.add_header("Content-Type", JSON)
        request.add_header("Authorization", "Bearer secret")
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            assert_as_predicted(as_table(json.load(answer)), classifier, pixels[:16])
        scrape = urllib.request.Request(f"{address}/metrics", headers={"Authorization": "Bearer secret"})
        with urllib.request.urlopen(scrape, timeout=PATIENCE_S) as answer:
            text = answer.read().decode()
        assert len(re.findall(r'proser_batch_images_sum\{replica="\w+"\} 16.0', text)) == 1
        until(
            lambda: "stop with Ctrl-C" in log.read_text(), process
        )  # a replica answers before the command has seen it
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        assert "secret" not in log.read_text()


class TestOptions:
    @pytest.mark.parametrize("replicas", ["0", "-1", "2-1", "1-", "a", "0-2"])
    def test_replicas_that_are_no_number_or_range_are_refused(self, replicas: str) -> None:
        with pytest.raises(ConfigError, match=f"--replicas got {replicas}; need a number such as 2, or a range"):
            ServeRequest("model", replicas=replicas)

    @pytest.mark.parametrize("field", ["max_waiting", "port", "reload_pause"])
    def test_numbers_that_no_server_can_have_are_refused(self, field: str) -> None:
        with pytest.raises(ConfigError, match=f"--{field.replace('_', '-')} got -1"):
            ServeRequest("model", **{field: -1})

    @pytest.mark.parametrize("pause", [1e10, math.inf, math.nan])
    def test_a_pause_that_no_one_would_wait_for_is_refused(self, pause: float) -> None:
        with pytest.raises(ConfigError, match=re.escape(f"--reload-pause got {pause:g}; need seconds from 0")):
            ServeRequest("model", reload_pause=pause)

    @pytest.mark.parametrize(
        "host", ["https://models.example.org", "models.example.org/", "*.example.org", "*:8000", "b\u00fccher.org"]
    )
    def test_a_host_that_no_request_could_name_is_refused(self, host: str) -> None:
        ServeRequest("model", allowed_hosts=("models.example.org:8000", "*"))
        with pytest.raises(ConfigError, match=rf"--allowed-hosts got '{re.escape(host)}', .*models\.example\.org"):
            ServeRequest("model", allowed_hosts=("models.example.org", host))

    @pytest.mark.parametrize("field", ["max_images", "max_megabytes", "max_megapixels"])
    def test_limits_that_let_nothing_in_are_refused(self, field: str) -> None:
        with pytest.raises(ConfigError, match=f"--{field.replace('_', '-')} got 0"):
            Limits(**{field: 0})
