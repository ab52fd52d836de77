"""`proser serve`: one answer with the library, refusals with a reason, and the version that an alias moves to."""

import asyncio
import base64
import io
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fastapi import HTTPException, Request
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from ray_nodes import free_ports
from registered_models import Registry
from rich.console import Console
from served_models import ask, assert_as_predicted, environment_of, running

from pipelines.serving.batching import Batcher, Images
from pipelines.serving.held_model import Held, HeldModel
from pipelines.serving.limits import Limits
from pipelines.serving.messages import decoded_images, encoded_images, read_body
from pipelines.serving.server import ServeRequest
from pipelines.serving.watch import LOOK, PATIENCE, Watch
from proser_core.errors import ConfigError, TrackingError
from proser_core.recognition.open_set_classifier import OpenSetClassifier, Predictions

LIMITS = Limits(max_images=16, max_megabytes=0.2, max_megapixels=0.01)
URI = "models:/served@champion"
JSON = "application/json"


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
    classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory, patch: pytest.MonkeyPatch
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("serving")
    environment = environment_of(classifier, folder, "served", patch)
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "pipelines.cli", "serve", URI, "--port", str(port), "--reload-pause", "0.2"]
    command += ["--max-images", "16", "--max-megabytes", "0.2", "--max-megapixels", "0.01"]
    address, log = f"http://127.0.0.1:{port}", folder / "log"
    with running(command, environment, log, f"{address}/health") as process:
        yield Server(process, address, Registry(folder, "served"), log)


def as_json(files: list[bytes]) -> dict[str, list[str]]:
    return {"images": [base64.b64encode(file).decode() for file in files]}


def as_table(answer: dict[str, Any]) -> pd.DataFrame:
    """As the library has it."""
    rows = [dict(row) for row in answer["predictions"]]
    probabilities = [{f"p_{name}": value for name, value in row.pop("probabilities").items()} for row in rows]
    return pd.concat([pd.DataFrame(rows), pd.DataFrame(probabilities)], axis=1)


def get(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return json.load(answer)


def large_image() -> bytes:
    file = io.BytesIO()
    Image.new("L", (200, 100)).save(file, "PNG")
    return file.getvalue()


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
            (413, b"x" * 200_001, "image/png", "need 0.2 MB or less"),
            (413, large_image(), "image/png", "got 0.0 megapixels in 1 image(s); need 0.01"),
            (415, b"--x", "multipart/form-data; boundary=x", "got multipart/form-data"),
            (422, b"no image", "image/png", "it is no image that Pillow knows"),
            (422, encoded[0][:60], "image/png", "image 0: the image cannot be decoded"),
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
            time.sleep(0.5)
            server.registry.client.set_registered_model_alias("served", "champion", version)
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not any(answer.get("version") == version for _, answer in seen[-4:]):
                time.sleep(0.1)
            time.sleep(0.5)
            stop.set()
            for each in running:
                each.result()
        assert {status for status, _ in seen} == {200}
        assert {answer["version"] for _, answer in seen} == {"1", version}
        deadline = time.monotonic() + 30
        while "now served version 2" not in server.log.read_text() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert "now served version 2" in server.log.read_text()
        after = [row for _, answer in seen if answer["version"] == version for row in answer["predictions"]]
        assert len(after) > 0
        assert not any(row["unknown"] for row in after)

    def test_sigterm_ends_it_cleanly(self, server: Server) -> None:
        """Last: the server is gone afterwards."""
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        assert "Traceback" not in server.log.read_text()
        assert "served version 1: 5 classes, and unknown" in server.log.read_text()


class TestHeldModel:
    @pytest.fixture
    def registry(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classifier: OpenSetClassifier) -> Registry:
        environment_of(classifier, tmp_path, "held", monkeypatch)
        return Registry(tmp_path, "held")

    def test_a_version_that_cannot_be_loaded_leaves_the_old_one(
        self, registry: Registry, classifier: OpenSetClassifier
    ) -> None:
        held = HeldModel("models:/held@champion", "cpu")
        assert (held.current.version, held.look(), held.problem) == ("1", False, "")
        spoiled = registry.add(replace(classifier, calibration=replace(classifier.calibration, bias=0.5)))
        cards = [card for card in registry.folder.rglob("classifier.json") if '"bias": 0.5' in card.read_text()]
        for card in cards:
            card.write_text(card.read_text().replace('"bias": 0.5', '"bias": 0.25'))
        registry.client.set_registered_model_alias("held", "champion", spoiled.version)
        assert not held.look()
        assert "was changed after it was saved" in held.problem
        assert held.current.version == "1"
        registry.client.set_registered_model_alias("held", "champion", "1")
        assert (held.look(), held.problem) == (False, "")

    def test_an_alias_that_is_gone_is_a_problem_and_no_end(self, registry: Registry) -> None:
        held = HeldModel("models:/held@champion", "cpu")
        registry.client.delete_registered_model_alias("held", "champion")
        assert not held.look()
        assert "no alias 'champion'" in held.problem
        assert held.current.version == "1"

    def test_only_an_alias_moves(self, registry: Registry, classifier: OpenSetClassifier, tmp_path: Path) -> None:
        classifier.save(tmp_path / "folder")
        uris = ("models:/held@champion", "models:/held/1", str(tmp_path / "folder"))
        assert [HeldModel(uri, "cpu").moves for uri in uris] == [True, False, False]

    def test_no_model_to_begin_with_is_refused(self, registry: Registry) -> None:
        with pytest.raises(TrackingError, match="no version '7'"):
            HeldModel("models:/held/7", "cpu")


class TestMessages:
    @given(st.binary(max_size=40))
    def test_whatever_comes_as_json_is_read_or_refused(self, body: bytes) -> None:
        status = 200
        try:
            assert encoded_images(JSON, body, LIMITS)
        except HTTPException as error:
            status = error.status_code
        assert status in (200, 400, 413)

    @given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=16))
    def test_what_was_encoded_comes_back(self, files: list[bytes]) -> None:
        assert encoded_images("application/json; charset=utf-8", json.dumps(as_json(files)).encode(), LIMITS) == files

    @pytest.mark.parametrize(
        "body", [b"[1]", b'{"images": []}', b'{"images": [1]}', b'{"images": ["?"]}', b"[" * 100_000]
    )
    def test_other_json_says_what_is_needed(self, body: bytes) -> None:
        with pytest.raises(HTTPException) as caught:
            encoded_images(JSON, body, LIMITS)
        assert caught.value.status_code == 400
        assert "base64" in caught.value.detail

    def test_an_empty_body_is_refused(self) -> None:
        with pytest.raises(HTTPException, match="empty body"):
            encoded_images("", b"", LIMITS)

    def test_a_body_without_a_length_is_refused_once_too_much_has_come(self) -> None:
        parts = iter([b"x" * 150_000, b"x" * 150_000, b"never asked for"])

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": next(parts), "more_body": True}

        request = Request({"type": "http", "headers": []}, receive)
        with pytest.raises(HTTPException) as caught:
            asyncio.run(read_body(request, LIMITS))
        assert caught.value.status_code == 413
        assert next(parts) == b"never asked for"

    def test_images_of_too_many_pixels_together_are_refused_before_any_is_decoded(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        two = json.dumps(as_json([large_image(), large_image()])).encode()
        assert decoded_images(JSON, two, 8, replace(LIMITS, max_megapixels=0.04)).shape == (2, 8, 8, 3)
        monkeypatch.setattr("pipelines.serving.messages.decode_square", None)
        with pytest.raises(HTTPException, match=r"in 2 image\(s\); need 0\.03 or fewer") as caught:
            decoded_images(JSON, two, 8, replace(LIMITS, max_megapixels=0.03))
        assert caught.value.status_code == 413

    @pytest.mark.parametrize("side", [9_000, 20_000])
    def test_a_bomb_is_too_large_and_a_truncated_file_is_no_image(self, encoded: list[bytes], side: int) -> None:
        bomb = io.BytesIO()
        Image.new("1", (side, side)).save(bomb, "PNG")
        for content, status in ((bomb.getvalue(), 413), (encoded[0][:60], 422), (b"no image", 422)):
            with pytest.raises(HTTPException) as caught:
                decoded_images("image/png", content, 8, LIMITS)
            assert caught.value.status_code == status


class TestBatcher:
    """With a network that counts, and that is held up where a test says so."""

    @dataclass
    class Network:
        batches: list[tuple[str, int]]
        free: threading.Event

        def __call__(self, held: Held, pixels: np.ndarray) -> Predictions:
            self.free.wait(30)
            self.batches.append((held.version, len(pixels)))
            if (pixels == 255).any():
                raise ValueError("a pixel that it cannot stand")
            values = pixels[:, 0, 0, 0].astype(np.float32)
            return Predictions([str(value) for value in values], values.astype(int), values, values[:, None])

    @pytest.fixture
    def network(self) -> Network:
        return self.Network([], threading.Event())

    def images(self, *values: int, version: Held) -> Images:
        pixels = np.zeros((len(values), 4, 4, 3), np.uint8)
        pixels[:, 0, 0, 0] = values
        return Images(version, pixels)

    @pytest.fixture
    def versions(self, classifier: OpenSetClassifier) -> tuple[Held, Held]:
        return Held("a", "1", classifier), Held("a", "2", classifier)

    def while_busy(self, network: Network, asked: list[Images], most: int = 4) -> list[Any]:
        """Answers to the first request, and to the others, which come while the network is busy with it; then to the
        last one again, when nothing waits any more."""

        async def ask() -> list[Any]:
            batcher = Batcher(network, most)
            tasks = [asyncio.create_task(batcher.submit(asked[0]))]
            while batcher.began is None:
                await asyncio.sleep(0.01)
            tasks += [asyncio.create_task(batcher.submit(each)) for each in asked[1:]]
            await asyncio.sleep(0.05)
            network.free.set()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert batcher.began is None
            batches = len(network.batches)
            assert len((await batcher.submit(asked[-1])).labels) == len(asked[-1].pixels)
            assert len(network.batches) == batches + 1
            del network.batches[batches:]
            return answers

        return asyncio.run(ask())

    def test_what_waits_while_the_network_is_busy_is_classified_together(
        self, network: Network, versions: tuple[Held, Held]
    ) -> None:
        asked = [self.images(*values, version=versions[0]) for values in ((1,), (2, 3), (4,), (5,), (6, 7, 8))]
        answers = self.while_busy(network, asked)
        assert [answer.indices.tolist() for answer in answers] == [[1], [2, 3], [4], [5], [6, 7, 8]]
        assert [size for _, size in network.batches] == [1, 4, 3], "as many as fit, in their order"

    def test_a_batch_is_of_one_version(self, network: Network, versions: tuple[Held, Held]) -> None:
        old, new = versions
        asked = [self.images(value, version=version) for value, version in ((1, old), (2, old), (3, new), (4, new))]
        answers = self.while_busy(network, asked)
        assert [answer.indices.tolist() for answer in answers] == [[1], [2], [3], [4]]
        assert network.batches == [("1", 1), ("1", 1), ("2", 2)]

    def test_a_batch_that_fails_takes_no_other_with_it(self, network: Network, versions: tuple[Held, Held]) -> None:
        asked = [self.images(*values, version=versions[0]) for values in ((255, 1, 1, 1), (2,), (3,))]
        answers = self.while_busy(network, asked)
        assert isinstance(answers[0], ValueError)
        assert [answer.indices.tolist() for answer in answers[1:]] == [[2], [3]]

    def test_whoever_is_gone_is_not_waited_for(self, network: Network, versions: tuple[Held, Held]) -> None:
        async def ask() -> None:
            batcher = Batcher(network, 4)
            tasks = [asyncio.create_task(batcher.submit(self.images(n, version=versions[0]))) for n in (1, 2, 3, 4, 5)]
            await asyncio.sleep(0.05)
            tasks[4].cancel()  # it waits for the second batch
            network.free.set()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            assert [answer.indices.tolist() for answer in done[:4]] == [[1], [2], [3], [4]]

        asyncio.run(ask())
        assert network.batches == [("1", 4)]

    def test_a_batch_that_hangs_makes_the_replica_unhealthy(
        self, network: Network, versions: tuple[Held, Held], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def ask() -> None:
            batcher = Batcher(network, 4)
            batcher.check()
            task = asyncio.create_task(batcher.submit(self.images(1, version=versions[0])))
            await asyncio.sleep(0.05)
            batcher.check()
            monkeypatch.setattr("pipelines.serving.batching.STUCK", 0.01)
            with pytest.raises(RuntimeError, match="has not ended"):
                batcher.check()
            network.free.set()
            await task
            batcher.check()

        asyncio.run(ask())


class TestWatch:
    """With replicas that answer as a test says."""

    @dataclass
    class Replicas:
        """As Ray Serve's handle: `handle.state.remote().result(timeout_s)`."""

        states: list[dict[str, str] | Exception]

        @property
        def state(self) -> Any:
            return self

        def remote(self) -> Any:
            return self

        def result(self, timeout_s: float) -> dict[str, str]:
            now = self.states.pop(0)
            if isinstance(now, Exception):
                raise now
            return now

    def watched(self, *states: dict[str, str] | Exception, replicas: int = 1, status: Any = None) -> tuple[Watch, str]:
        out = io.StringIO()
        watch = Watch(self.Replicas(list(states)), "m version 1", replicas, Console(file=out, width=120))
        watch.status = status or (lambda: "RUNNING")
        for _ in states:
            watch.look()
        return watch, out.getvalue()

    def of(self, version: int, problem: str = "", replica: str = "a") -> dict[str, str]:
        return {"model": f"m version {version}", "problem": problem, "replica": replica}

    def test_a_new_version_and_a_problem_are_told_once(self) -> None:
        away = "the registry cannot be asked"
        states = [self.of(1), self.of(2), self.of(2), self.of(2, away), self.of(2, away), self.of(2)]
        _, text = self.watched(*states)
        assert text.splitlines() == [
            "now m version 2",
            "still m version 2: the registry cannot be asked",
            "the registry answers again",
        ]

    def test_of_several_replicas_each_is_told(self) -> None:
        states = [self.of(1, replica="a"), self.of(2, replica="b"), self.of(1, replica="a"), self.of(2, replica="a")]
        _, text = self.watched(*states, replicas=2)
        assert text.splitlines() == ["replica b: now m version 2", "replica a: now m version 2"]

    def test_silence_ends_it_only_where_it_lasts(self) -> None:
        looks = int(PATIENCE / LOOK)
        lost = [ConnectionError("gone")] * looks
        watch, _ = self.watched(*lost, self.of(1), *lost)
        assert watch.ended == ""
        watch, _ = self.watched(*lost, ConnectionError("gone"))
        assert watch.ended == f"no replica has answered for {PATIENCE:g} s"

    def test_a_server_that_was_shut_down_is_the_end_at_once(self) -> None:
        watch, _ = self.watched(ConnectionError("gone"), status=lambda: "DELETING")
        assert watch.ended == "it is being shut down"

    def test_a_controller_that_is_gone_is_no_crash(self) -> None:
        def gone() -> str:
            raise RuntimeError("The actor is dead")

        watch, _ = self.watched(ConnectionError("gone"), status=gone)
        assert watch.ended == ""

    def test_it_ends_when_it_is_stopped_or_when_nothing_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pipelines.serving.watch.LOOK", 0.01)
        stopped = threading.Event()
        watch, _ = self.watched()
        stopped.set()
        assert watch.until(stopped) == 0
        watch, _ = self.watched(status=lambda: "NOT_STARTED")
        assert watch.until(threading.Event()) == 1


class TestOptions:
    @pytest.mark.parametrize("field", ["replicas", "max_waiting", "port", "reload_pause"])
    def test_numbers_that_no_server_can_have_are_refused(self, field: str) -> None:
        with pytest.raises(ConfigError, match=f"--{field.replace('_', '-')} got -1"):
            ServeRequest("model", **{field: -1})

    @pytest.mark.parametrize("field", ["max_images", "max_megabytes", "max_megapixels"])
    def test_limits_that_let_nothing_in_are_refused(self, field: str) -> None:
        with pytest.raises(ConfigError, match=f"--{field.replace('_', '-')} got 0"):
            Limits(**{field: 0})
