"""Batches in front of the network: requests that wait while it is busy are classified together.

Ray Serve's own `serve.batch` closes a batch after a fixed pause, whether the network is free or not: under load it runs
many small ones in turn.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from pipelines.tracking.models import Model
from proser_core.recognition.open_set_classifier import Predictions


@dataclass(frozen=True)
class RequestImages:
    """The images uint8[n, size, size, 3] of one request, and the model that they were decoded for."""

    served: Model
    pixels: np.ndarray


BATCH_TIMEOUT_S = 120.0  # after which a batch counts as hung
Classify = Callable[[Model, np.ndarray, int], Predictions]
Waiting = tuple[RequestImages, "asyncio.Future[Predictions]"]


@dataclass
class Batcher:
    """Batches of up to `max_images` images of one model, in the order in which they came, as many at a time as there
    are `cores`. `classify` gets the number of threads that a batch may use: a request by itself gets `alone`, and
    batches side by side one each, which keeps cores busier than all on one batch. `started` holds when the current
    batches started, by time.monotonic."""

    classify: Classify
    max_images: int
    cores: int = 1
    alone: int = 1
    started: dict[object, float] = field(default_factory=dict)
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
        """Raises RuntimeError where a batch hangs."""
        if self.started and time.monotonic() - min(self.started.values()) > BATCH_TIMEOUT_S:
            raise RuntimeError(f"a batch has not finished within {BATCH_TIMEOUT_S:g} s")

    async def _work(self) -> None:
        """Until nothing waits."""
        while batch := self._next():
            number = object()
            self.started[number] = time.monotonic()
            threads = self.alone if len(self.started) == 1 and not self._waiting else 1
            try:
                pixels = np.concatenate([images.pixels for images, _ in batch])
                together = await asyncio.get_running_loop().run_in_executor(
                    self._network, self.classify, batch[0][0].served, pixels, threads
                )
            except Exception as error:
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
            else:
                end = 0
                for images, answer in batch:
                    begin, end = end, end + len(images.pixels)
                    if not answer.done():  # the client may be gone
                        answer.set_result(together.part(begin, end))
            finally:
                del self.started[number]
        self._workers.discard(asyncio.current_task())

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
