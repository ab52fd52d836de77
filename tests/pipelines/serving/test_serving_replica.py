"""Inside `proser serve`: the version that an alias moves to, batches of what waits, and the monitor of replicas."""

import asyncio
import io
import json
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from ray import serve
from ray.serve.deployment import deployment_to_schema
from registered_models import Registry
from rich.console import Console
from served_models import environment_of

from pipelines.serving.access import Access
from pipelines.serving.application import Routes
from pipelines.serving.batching import MAX_FAILURES, WORK_TIMEOUT_S, Batcher, RequestImages
from pipelines.serving.limits import Limits
from pipelines.serving.metrics import Metrics
from pipelines.serving.monitor import POLL_INTERVAL_S, SILENCE_TIMEOUT_S, ReplicaMonitor
from pipelines.serving.ray_server import Replica, deployment_of
from pipelines.serving.recogniser import Options, Recogniser
from pipelines.serving.served_model import ServedModel
from pipelines.tracking.models import Model
from proser_core.errors import TrackingError
from proser_core.recognition.open_set_classifier import OpenSetClassifier, Predictions

pytestmark = pytest.mark.usefixtures("empty_programs")


class TestServedModel:
    @pytest.fixture
    def registry(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classifier: OpenSetClassifier) -> Registry:
        environment_of(classifier, tmp_path, "held", monkeypatch)
        return Registry(tmp_path, "held")

    def test_a_version_that_cannot_be_loaded_leaves_the_old_one(
        self, registry: Registry, classifier: OpenSetClassifier
    ) -> None:
        served = ServedModel("models:/held@champion", "cpu")
        assert (served.current.number, served.poll(), served.problem) == ("1", False, "")
        spoiled = registry.add(replace(classifier, calibration=replace(classifier.calibration, bias=0.5)))
        cards = [card for card in registry.folder.rglob("classifier.json") if '"bias": 0.5' in card.read_text()]
        for card in cards:
            card.write_text(card.read_text().replace('"bias": 0.5', '"bias": 0.25'))
        registry.client.set_registered_model_alias("held", "champion", spoiled.version)
        assert not served.poll()
        assert "was changed after it was saved" in served.problem
        assert served.brief == "version 2 cannot be loaded"
        assert served.current.number == "1"
        registry.client.set_registered_model_alias("held", "champion", "1")
        assert (served.poll(), served.problem) == (False, "")

    def test_an_alias_that_is_gone_is_a_problem_and_no_end(self, registry: Registry) -> None:
        served = ServedModel("models:/held@champion", "cpu")
        registry.client.delete_registered_model_alias("held", "champion")
        assert not served.poll()
        assert "no alias 'champion'" in served.problem
        assert served.current.number == "1"

    def test_a_health_check_tells_a_problem_without_its_details(self, registry: Registry) -> None:
        access = Access(("127.0.0.1",))
        recogniser = Recogniser(Options("models:/held@champion", "", "cpu", Limits(), 256, 0, access))
        registry.client.delete_registered_model_alias("held", "champion")
        recogniser.model.poll()
        problem = json.loads(bytes(asyncio.run(Routes(recogniser).health()).body))["problem"]
        assert problem == "the registry does not answer, or the alias is gone"

    def test_a_model_that_was_deleted_and_made_anew_is_another_version_with_its_own_expected_scores(
        self, registry: Registry, classifier: OpenSetClassifier
    ) -> None:
        metrics = Metrics()
        served = ServedModel("models:/held@champion", "cpu", metrics.serves)
        registry.client.delete_registered_model("held")
        registry.add(replace(classifier, calibration=replace(classifier.calibration, bias=0.5)))
        assert (served.poll(), served.current.number, served.current.classifier.calibration.bias) == (True, "1", 0.5)
        (expected,) = (each for each in metrics.collect() if each.name == "proser_validation_unknown_score")
        (count,) = (sample.value for sample in expected.samples if sample.name.endswith("_count"))
        assert classifier.validation_scores is not None
        assert count == len(classifier.validation_scores.known_scores)

    def test_only_an_alias_moves(self, registry: Registry, classifier: OpenSetClassifier, tmp_path: Path) -> None:
        classifier.save(tmp_path / "folder")
        uris = ("models:/held@champion", "models:/held/1", str(tmp_path / "folder"))
        assert [ServedModel(uri, "cpu").has_alias for uri in uris] == [True, False, False]

    def test_no_model_to_begin_with_is_refused(self, registry: Registry) -> None:
        with pytest.raises(TrackingError, match="no version '7'"):
            ServedModel("models:/held/7", "cpu")


def test_a_replica_of_ray_serve_keeps_to_its_share_of_the_cores(
    classifier: OpenSetClassifier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classifier.save(tmp_path / "folder")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    monkeypatch.setattr(
        serve, "get_replica_context", lambda: SimpleNamespace(replica_id=SimpleNamespace(unique_id="1"))
    )
    options = Options(str(tmp_path / "folder"), "", "cpu", Limits(), 256, 0, Access(("127.0.0.1",)))
    own = Replica.func_or_class.__mro__[1]  # without Ray's wrapper around it
    torch.set_num_threads(2)  # as with OMP_NUM_THREADS=2
    own(options)
    assert torch.get_num_threads() == 1


def test_ray_serve_waits_for_a_request_as_long_as_one_process_does() -> None:
    options = Options("model", "", "cpu", Limits(max_seconds=40), 256, 0, Access(()))
    for replicas in ((2, 2), (1, 2)):
        waits = deployment_to_schema(deployment_of(options, replicas)).graceful_shutdown_timeout_s
        assert waits == options.longest_request == 40 + WORK_TIMEOUT_S


class TestBatcher:
    """With a network that counts, and that is held up where a test says so."""

    @dataclass
    class Network:
        batches: list[tuple[str, int]]
        free: threading.Event
        threads: list[int] = field(default_factory=list)

        def __call__(self, served: Model, pixels: np.ndarray, threads: int) -> Predictions:
            self.threads.append(threads)
            self.free.wait(30)
            self.batches.append((served.uri, len(pixels)))
            if (pixels == 255).any():
                raise ValueError("a pixel that it cannot stand")
            if (pixels == 254).any():
                raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
            values = pixels[:, 0, 0, 0].astype(np.float32)
            return Predictions([str(value) for value in values], values.astype(int), values, values[:, None], values)

    @pytest.fixture
    def network(self) -> Network:
        return self.Network([], threading.Event())

    def images(self, *values: int, version: Model) -> RequestImages:
        pixels = np.zeros((len(values), 4, 4, 3), np.uint8)
        pixels[:, 0, 0, 0] = values
        return RequestImages(version, pixels)

    @pytest.fixture
    def versions(self, classifier: OpenSetClassifier) -> tuple[Model, Model]:
        return Model("1", classifier, None), Model("2", classifier, None)

    def while_busy(self, network: Network, asked: list[RequestImages], most: int = 4) -> list[Any]:
        """Answers to the first request, and to the others, which come while the network is busy with it; then to the
        last one again, when nothing waits any more."""

        async def ask() -> list[Any]:
            batcher = Batcher(network, most)
            tasks = [asyncio.create_task(batcher.submit(asked[0]))]
            while not batcher.started:
                await asyncio.sleep(0.01)
            tasks += [asyncio.create_task(batcher.submit(each)) for each in asked[1:]]
            await asyncio.sleep(0.05)
            network.free.set()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert not batcher.started
            batches = len(network.batches)
            assert len((await batcher.submit(asked[-1])).labels) == len(asked[-1].pixels)
            assert len(network.batches) == batches + 1
            del network.batches[batches:]
            return answers

        return asyncio.run(ask())

    def test_what_waits_while_the_network_is_busy_is_classified_together(
        self, network: Network, versions: tuple[Model, Model]
    ) -> None:
        asked = [self.images(*values, version=versions[0]) for values in ((1,), (2, 3), (4,), (5,), (6, 7, 8))]
        answers = self.while_busy(network, asked)
        assert [answer.indices.tolist() for answer in answers] == [[1], [2, 3], [4], [5], [6, 7, 8]]
        assert [size for _, size in network.batches] == [1, 4, 3], "as many as fit, in their order"

    def test_a_batch_is_of_one_version(self, network: Network, versions: tuple[Model, Model]) -> None:
        old, new = versions
        asked = [self.images(value, version=version) for value, version in ((1, old), (2, old), (3, new), (4, new))]
        answers = self.while_busy(network, asked)
        assert [answer.indices.tolist() for answer in answers] == [[1], [2], [3], [4]]
        assert network.batches == [("1", 1), ("1", 1), ("2", 2)]

    def test_a_batch_that_fails_takes_no_other_with_it(self, network: Network, versions: tuple[Model, Model]) -> None:
        asked = [self.images(*values, version=versions[0]) for values in ((255, 1, 1, 1), (2,), (3,))]
        answers = self.while_busy(network, asked)
        assert isinstance(answers[0], ValueError)
        assert [answer.indices.tolist() for answer in answers[1:]] == [[2], [3]]

    def test_whoever_is_gone_is_not_waited_for(self, network: Network, versions: tuple[Model, Model]) -> None:
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

    def test_each_core_has_a_batch_and_a_request_by_itself_all_cores(
        self, network: Network, versions: tuple[Model, Model]
    ) -> None:
        async def ask() -> None:
            batcher = Batcher(network, 2, cores=2, alone=3)
            tasks = [asyncio.create_task(batcher.submit(self.images(n, version=versions[0]))) for n in (1, 2, 3, 4, 5)]
            await asyncio.sleep(0.05)
            assert len(batcher.started) == 2
            network.free.set()
            done = await asyncio.gather(*tasks)
            assert [answer.indices.tolist() for answer in done] == [[1], [2], [3], [4], [5]]
            await batcher.submit(self.images(6, version=versions[0]))

        asyncio.run(ask())
        assert sorted(size for _, size in network.batches) == [1, 1, 2, 2]
        assert (network.threads[:2], network.threads[-1]) == ([1, 1], 3)

    def test_a_batch_that_hangs_makes_the_replica_unhealthy(
        self, network: Network, versions: tuple[Model, Model], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def ask() -> None:
            batcher = Batcher(network, 4)
            batcher.check()
            task = asyncio.create_task(batcher.submit(self.images(1, version=versions[0])))
            await asyncio.sleep(0.05)
            batcher.check()
            monkeypatch.setattr("pipelines.serving.batching.WORK_TIMEOUT_S", 0.01)
            with pytest.raises(RuntimeError, match="a batch has not finished"):
                batcher.check()
            network.free.set()
            await task
            batcher.check()

        asyncio.run(ask())

    @pytest.mark.parametrize(("value", "failures"), [(255, MAX_FAILURES), (254, 1)])
    def test_batches_that_fail_one_after_another_make_the_replica_unhealthy_until_one_does_not(
        self, network: Network, versions: tuple[Model, Model], value: int, failures: int
    ) -> None:
        """At once where the device failed."""
        network.free.set()

        async def ask() -> None:
            batcher = Batcher(network, 4)
            good, bad = (self.images(n, version=versions[0]) for n in (1, value))
            for number in range(failures):
                batcher.check()
                with pytest.raises((ValueError, torch.AcceleratorError)):
                    await batcher.submit(bad)
                assert batcher.failed == (number + 1 if failures > 1 else MAX_FAILURES)
            with pytest.raises(RuntimeError, match="the last batches failed"):
                batcher.check()
            await batcher.submit(good)
            batcher.check()

        asyncio.run(ask())


class TestReplicaMonitor:
    """With replicas that answer as a test says."""

    def monitored(
        self,
        *states: dict[str, str] | Exception,
        several: bool = False,
        status: Any = None,
        lasts: float = POLL_INTERVAL_S,
    ) -> tuple[ReplicaMonitor, str]:
        """After one poll per state; a poll lasts as many seconds, by the monitor's clock."""
        out, now = io.StringIO(), 0.0
        console, status = Console(file=out, width=120), status or (lambda: "RUNNING")
        answers = iter(states)

        def ask(seconds: float) -> dict[str, str]:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monitor = ReplicaMonitor(ask, "m version 1", several, console, status, lambda: now)
        for _ in states:
            monitor.poll()
            now += lasts
        return monitor, out.getvalue()

    def of(self, version: int, problem: str = "", replica: str = "a") -> dict[str, str]:
        return {"model": f"m version {version}", "problem": problem, "replica": replica}

    def test_a_new_version_and_a_problem_are_told_once(self) -> None:
        away = "the registry does not answer"
        states = [self.of(1), self.of(2), self.of(2), self.of(2, away), self.of(2, away), self.of(2)]
        _, text = self.monitored(*states)
        assert text.splitlines() == [
            "now m version 2",
            "still m version 2: the registry does not answer",
            "follows the registry again",
        ]

    def test_of_several_replicas_each_is_told(self) -> None:
        states = [self.of(1, replica="a"), self.of(2, replica="b"), self.of(1, replica="a"), self.of(2, replica="a")]
        _, text = self.monitored(*states, several=True)
        assert text.splitlines() == ["replica b: now m version 2", "replica a: now m version 2"]

    @pytest.mark.parametrize("lasts", [POLL_INTERVAL_S, 3 * POLL_INTERVAL_S])
    def test_silence_ends_it_only_where_it_lasts(self, lasts: float) -> None:
        """By the clock, however long a poll waits for an answer."""
        lost = [ConnectionError("gone")] * (int(SILENCE_TIMEOUT_S / lasts) + 1)
        monitor, _ = self.monitored(*lost, self.of(1), *lost, lasts=lasts)
        assert monitor.ended == ""
        monitor, _ = self.monitored(*lost, ConnectionError("gone"), lasts=lasts)
        assert monitor.ended == f"no replica has answered for {SILENCE_TIMEOUT_S:g} s"

    def test_a_server_that_was_shut_down_is_the_end_at_once(self) -> None:
        monitor, _ = self.monitored(ConnectionError("gone"), status=lambda: "DELETING")
        assert monitor.ended == "it is being shut down"

    def test_a_controller_that_is_gone_is_no_crash(self) -> None:
        def gone() -> str:
            raise RuntimeError("The actor is dead")

        monitor, _ = self.monitored(ConnectionError("gone"), status=gone)
        assert monitor.ended == ""

    def test_it_ends_when_it_is_stopped_or_when_nothing_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pipelines.serving.monitor.POLL_INTERVAL_S", 0.01)
        stopped = threading.Event()
        monitor, _ = self.monitored()
        stopped.set()
        assert monitor.until(stopped) == 0
        monitor, _ = self.monitored(status=lambda: "NOT_STARTED")
        assert monitor.until(threading.Event()) == 1
