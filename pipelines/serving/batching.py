"""Requests that wait while the network is busy are classified together.

Ray Serve's own `serve.batch` closes a batch after a fixed pause, whether the network is free or not: under load it
would run many small ones in turn.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from pipelines.serving.served_model import Held
from proser_core.recognition.open_set_classifier import Predictions


@dataclass(frozen=True)
class Images:
    """The images uint8[n, size, size, 3] of one request, and the model that they were decoded for."""

    held: Held
    pixels: np.ndarray


STUCK = 120.0  # seconds that no batch takes
Classify = Callable[[Held, np.ndarray], Predictions]


@dataclass
class Batcher:
    """One batch at a time, of up to `most` images of one model, in the order in which they came.

    `began` is when the batch that is being classified was begun, by time.monotonic, or None.
    """

    classify: Classify
    most: int
    began: float | None = None
    _waiting: "deque[tuple[Images, asyncio.Future[Predictions]]]" = field(default_factory=deque)
    _network: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    _worker: "asyncio.Task[None] | None" = None

    async def submit(self, images: Images) -> Predictions:
        """Predictions on the images of one request. Raises what `classify` raised for their batch."""
        answer: asyncio.Future[Predictions] = asyncio.get_running_loop().create_future()
        self._waiting.append((images, answer))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await answer

    def check(self) -> None:
        """Raises RuntimeError where a batch hangs."""
        if self.began is not None and time.monotonic() - self.began > STUCK:
            raise RuntimeError(f"a batch has not ended within {STUCK:g} s")

    async def _work(self) -> None:
        """Until nothing waits."""
        while batch := self._next():
            self.began = time.monotonic()
            try:
                pixels = np.concatenate([images.pixels for images, _ in batch])
                together = await asyncio.get_running_loop().run_in_executor(
                    self._network, self.classify, batch[0][0].held, pixels
                )
            except Exception as error:
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
            else:
                end = 0
                for images, answer in batch:
                    begin, end = end, end + len(images.pixels)
                    if not answer.done():  # whoever asked may have gone
                        answer.set_result(together.part(begin, end))
            finally:
                self.began = None

    def _next(self) -> "list[tuple[Images, asyncio.Future[Predictions]]]":
        """The requests of the next batch; empty where none waits."""
        batch: list[tuple[Images, asyncio.Future[Predictions]]] = []
        count = 0
        while self._waiting:
            images, answer = self._waiting[0]
            if batch and (images.held is not batch[0][0].held or count + len(images.pixels) > self.most):
                break
            self._waiting.popleft()
            if not answer.done():
                batch.append((images, answer))
                count += len(images.pixels)
        return batch
