"""Batches in front of the network: requests that wait while it is busy are classified together.

Ray Serve's own `serve.batch` closes a batch after a fixed pause, whether the network is free or not: under load it runs
many small ones in turn.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch

from pipelines.tracking.models import LoadedModel
from proser_core.recognition.open_set_classifier import Predictions


@dataclass(frozen=True)
class RequestImages:
    """The images uint8[n, size, size, 3] of one request, and the model that they were decoded for."""

    served: LoadedModel
    pixels: np.ndarray


WORK_TIMEOUT_S = 120.0
"""After which a batch, or the decoding of a request, counts as hung. A server that is stopped waits for it as long."""
MAX_FAILURES = 3  # batches in a row, after which a process counts as broken
Classify = Callable[[LoadedModel, np.ndarray, int], Predictions]
Waiting = tuple[RequestImages, "asyncio.Future[Predictions]"]


class InProgress:
    """Pieces of work in progress, with the times when they began, by time.monotonic."""

    def __init__(self) -> None:
        self._began: dict[object, float] = {}

    def __len__(self) -> int:
        return len(self._began)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count the block as another piece."""
        piece = object()
        self._began[piece] = time.monotonic()
        try:
            yield
        finally:
            del self._began[piece]

    def check(self, name: str) -> None:
        """Raises RuntimeError where a piece hangs."""
        if time.monotonic() - min(tuple(self._began.values()), default=math.inf) > WORK_TIMEOUT_S:
            raise RuntimeError(f"a {name} has not finished within {WORK_TIMEOUT_S:g} s")


@dataclass
class Batcher:
    """Batches of up to `max_images` images of one model, in the order in which they came, as many at a time as there
    are `cores`. `classify` gets the number of threads that a batch may use: a request by itself gets `alone`, and
    batches side by side one each, which keeps cores busier than all on one batch. `failed` counts the batches that
    failed since the last one that did not."""

    classify: Classify
    max_images: int
    cores: int = 1
    alone: int = 1
    started: InProgress = field(default_factory=InProgress)
    failed: int = 0
    _waiting: "deque[Waiting]" = field(default_factory=deque)
    _workers: "set[asyncio.Task[None] | None]" = field(default_factory=set)

    def __post_init__(self) -> None:
        self._network = ThreadPoolExecutor(self.cores)

    async def submit(self, images: RequestImages) -> Predictions:
        """Predictions on the images of one request. Raises what `classify` raised for their batch."""
        answer: asyncio.Future[Predictions] = asyncio.get_running_loop().create_future()
        self._waiting.append((images, answer))
        if len(self._workers) < self.cores:
            self._workers.add(asyncio.create_task(self._work()))
        return await answer

    def check(self) -> None:
        """Raises RuntimeError where a batch hangs, or one after the other fails, as on a GPU after an error."""
        self.started.check("batch")
        if self.failed >= MAX_FAILURES:
            raise RuntimeError("the last batches failed")

    def finish(self) -> None:
        """Wait for the batches that have begun."""
        self._network.shutdown()

    async def _work(self) -> None:
        """Until nothing waits."""
        while batch := self._next():
            with self.started.one():
                await self._answer(batch)
        self._workers.discard(asyncio.current_task())

    async def _answer(self, batch: "list[Waiting]") -> None:
        threads = self.alone if len(self.started) == 1 and not self._waiting else 1
        try:
            pixels = np.concatenate([images.pixels for images, _ in batch])
            together = await asyncio.get_running_loop().run_in_executor(
                self._network, self.classify, batch[0][0].served, pixels, threads
            )
        except Exception as error:
            self.failed += MAX_FAILURES if isinstance(error, torch.AcceleratorError) else 1  # no GPU recovers from most
            for _, answer in batch:
                if not answer.done():
                    answer.set_exception(error)
            return
        self.failed, end = 0, 0
        for images, answer in batch:
            begin, end = end, end + len(images.pixels)
            if not answer.done():  # the client may be gone
                answer.set_result(together.part(begin, end))

    def _next(self) -> "list[Waiting]":
        """The requests of the next batch; empty where none waits."""
        batch: list[Waiting] = []
        count = 0
        while self._waiting:
            images, answer = self._waiting[0]
            if batch and (images.served is not batch[0][0].served or count + len(images.pixels) > self.max_images):
                break
            self._waiting.popleft()
            if not answer.done():
                batch.append((images, answer))
                count += len(images.pixels)
        return batch
