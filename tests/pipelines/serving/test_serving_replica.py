"""Inside a replica of `proser serve`: its cores, and batches of the requests that wait."""

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from ray import serve
from ray.serve.deployment import deployment_to_schema
from waiting import PATIENCE_S

from pipelines.serving.access import Access
from pipelines.serving.batching import MAX_FAILURES, WORK_TIMEOUT_S, Batcher, RequestImages
from pipelines.serving.limits import Limits
from pipelines.serving.ray_server import Replica, deployment_of
from pipelines.serving.recogniser import Options
from pipelines.tracking.models import LoadedModel
from proser_core.recognition.open_set_classifier import OpenSetClassifier, Predictions


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
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # as with OMP_NUM_THREADS=2
    try:
        own(options)
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


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

        def __call__(self, served: LoadedModel, pixels: np.ndarray, threads: int) -> Predictions:
            self.threads.append(threads)
            self.free.wait(PATIENCE_S)
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

    def images(self, *values: int, version: LoadedModel) -> RequestImages:
        pixels = np.zeros((len(values), 4, 4, 3), np.uint8)
        pixels[:, 0, 0, 0] = values
        return RequestImages(version, pixels)

    @pytest.fixture
    def versions(self, classifier: OpenSetClassifier) -> tuple[LoadedModel, LoadedModel]:
        return LoadedModel("1", classifier, None), LoadedModel("2", classifier, None)

    def while_busy(self, network: Network, asked: list[RequestImages], most: int = 4) -> list[Any]:
        """Answers to the first request, and to the others, which come while the network is busy with it; then to the
        last one again, when nothing waits any more."""

        async def ask() -> list[Any]:
            batcher = Batcher(network, most)
            tasks = [asyncio.create_task(batcher.submit(asked[0]))]
            async with asyncio.timeout(PATIENCE_S):
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
        self, network: Network, versions: tuple[LoadedModel, LoadedModel]
    ) -> None:
        asked = [self.images(*values, version=versions[0]) for values in ((1,), (2, 3), (4,), (5,), (6, 7, 8))]
        answers = self.while_busy(network, asked)
        assert [answer.indices.tolist() for answer in answers] == [[1], [2, 3], [4], [5], [6, 7, 8]]
        assert [size for _, size in network.batches] == [1, 4, 3], "as many as fit, in their order"

    def test_a_batch_is_of_one_version(self, network: Network, versions: tuple[LoadedModel, LoadedModel]) -> None:
        old, new = versions
        asked = [self.images(value, version=version) for value, version in ((1, old), (2, old), (3, new), (4, new))]
        answers = self.while_busy(network, asked)
        assert [answer.indices.tolist() for answer in answers] == [[1], [2], [3], [4]]
        assert network.batches == [("1", 1), ("1", 1), ("2", 2)]

    def test_a_batch_that_fails_takes_no_other_with_it(
        self, network: Network, versions: tuple[LoadedModel, LoadedModel]
    ) -> None:
        asked = [self.images(*values, version=versions[0]) for values in ((255, 1, 1, 1), (2,), (3,))]
        answers = self.while_busy(network, asked)
        assert isinstance(answers[0], ValueError)
        assert [answer.indices.tolist() for answer in answers[1:]] == [[2], [3]]

    def test_whoever_is_gone_is_not_waited_for(
        self, network: Network, versions: tuple[LoadedModel, LoadedModel]
    ) -> None:
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
        self, network: Network, versions: tuple[LoadedModel, LoadedModel]
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
        self, network: Network, versions: tuple[LoadedModel, LoadedModel], monkeypatch: pytest.MonkeyPatch
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
        self, network: Network, versions: tuple[LoadedModel, LoadedModel], value: int, failures: int
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
