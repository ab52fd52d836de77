"""One process that classifies: its model, its batches, and what it counts."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import torch
from fastapi import Request

from pipelines.serving.access import Access
from pipelines.serving.arriving_requests import Memory, busy, read_body, while_connected
from pipelines.serving.batching import WORK_TIMEOUT_S, Batcher, InProgress, RequestImages
from pipelines.serving.image_bodies import decoded_images
from pipelines.serving.limits import Limits
from pipelines.serving.metrics import Metrics
from pipelines.serving.served_model import ServedModel, title_of
from pipelines.tracking.models import LoadedModel
from proser_core.recognition.open_set_classifier import Predictions

Message = TypeVar("Message")


@dataclass(frozen=True)
class Options:
    """What is served, to whom, and how; the pause in seconds. `cores` are those that a request by itself may use, where
    no other program is kept from them; a process has at least its own."""

    model: str
    tracking_uri: str
    device: str
    limits: Limits
    max_waiting: int
    reload_pause: float
    access: Access
    cores: int = 1

    @property
    def longest_request(self) -> float:
        """Seconds that a server which is stopped waits for a request that has begun."""
        return self.limits.max_seconds + WORK_TIMEOUT_S


class Recogniser:
    """Decodes the images of a request and classifies them in one batch with those of others. One version answers a
    request from beginning to end: the one that was served when it arrived."""

    def __init__(self, options: Options, replica: str = "0") -> None:
        self.options, self.replica, self.metrics = options, replica, Metrics()
        self.model = ServedModel(options.model, options.device, self.metrics.serves)
        lanes = 1 if options.device == "cuda" else torch.get_num_threads()
        self._batcher = Batcher(self._predict, options.limits.max_images, lanes, max(lanes, options.cores))
        self._decoders, self._decoding = ThreadPoolExecutor(2), InProgress()
        self._working, self._memory = 0, Memory()
        self._stop = threading.Event()
        if self.model.has_alias and options.reload_pause:
            arguments = (options.reload_pause, self._stop)
            threading.Thread(target=self.model.follow, args=arguments, name="follow", daemon=True).start()

    async def classify(
        self, request: Request, read: Callable[[str, bytes], tuple[Message, list[bytes]]]
    ) -> tuple[LoadedModel, Message, Predictions]:
        """The version that answers, what `read` makes of content type and body, and the predictions on its images.
        Raises HTTPException for a request that is refused."""
        if self.is_full:
            raise busy("got more requests at a time than --max-waiting")
        self._working += 1
        try:
            served, kind = self.model.current, request.headers.get("content-type", "")
            with self._memory.of_request() as hold:
                body = await read_body(request, self.options.limits, hold)
                work = self._predicted(partial(self._decoded, served, read, kind, body), hold)
                message, predictions = await while_connected(request, work)
        finally:
            self._working -= 1
        self.metrics.classified(served, predictions)
        return served, message, predictions

    @property
    def is_full(self) -> bool:
        """Whether a further request is refused, however small."""
        return self._working >= self.options.max_waiting

    @property
    def is_ready(self) -> bool:
        """Whether a further request is taken, however large."""
        pixels = 3 * self.options.limits.max_images * self.model.current.classifier.image_size**2
        return not self.is_full and self._memory.has_room(self.options.limits.max_bytes + pixels)

    def check(self) -> None:
        """Raises RuntimeError where work hangs or batches fail: nothing but a new process helps."""
        self._decoding.check("decoding")
        self._batcher.check()

    def state(self) -> dict[str, str]:
        """State for the terminal: the served version, and the problem of the last poll of the registry, if any."""
        served, problem = self.model.current, self.model.problem
        classes = str(len(served.classifier.class_names))
        return {"model": title_of(served), "classes": classes, "problem": problem, "replica": self.replica}

    def close(self) -> None:
        """No alias is followed any more."""
        self._stop.set()

    def finish(self) -> None:
        """Wait for the work that has begun, once no more comes."""
        self._decoders.shutdown()
        self._batcher.finish()

    async def _predicted(
        self, decode: Callable[[], tuple[Message, RequestImages]], hold: Callable[[int], None]
    ) -> tuple[Message, Predictions]:
        message, images = await asyncio.get_running_loop().run_in_executor(self._decoders, decode)
        # A small file gives as many bytes as a large one. Only a decoder finds out how many images a body has: counting
        # before it decodes them would send each request there twice, for what two threads have in hand at a time.
        hold(images.pixels.nbytes)
        return message, await self._batcher.submit(images)

    def _decoded(
        self, served: LoadedModel, read: Callable[[str, bytes], tuple[Message, list[bytes]]], kind: str, body: bytes
    ) -> tuple[Message, RequestImages]:
        with self._decoding.one():
            message, encoded = read(kind, body)
            pixels = decoded_images(encoded, served.classifier.image_size, self.options.limits, kind)
        return message, RequestImages(served, pixels)

    def _predict(self, served: LoadedModel, pixels: np.ndarray, threads: int) -> Predictions:
        self.metrics.batch(len(pixels))
        if self.options.device == "cpu":
            torch.set_num_threads(threads)  # of this thread's own team
        return served.classifier.predict(pixels, self.options.device)
