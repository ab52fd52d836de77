"""The Ray Serve application: what a replica does with a request."""

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from ray import serve

from pipelines.serving.held_model import Held, HeldModel
from pipelines.serving.limits import Limits
from pipelines.serving.messages import decode, encoded_images, read_body, rows_of
from proser_core.recognition.open_set_classifier import Predictions

STUCK = 120.0  # seconds after which a batch that has not ended makes the replica unhealthy
api = FastAPI(title="proser", docs_url=None, redoc_url=None)  # their pages come from a server elsewhere


@dataclass(frozen=True)
class ReplicaOptions:
    """What a replica needs to know; the pauses in seconds."""

    model: str
    tracking_uri: str
    device: str
    limits: Limits
    reload_pause: float
    batch_pause: float


@dataclass(frozen=True)
class _Waiting:
    """The images uint8[n, size, size, 3] of one request, and the model that they were decoded for."""

    held: Held
    images: np.ndarray


def _count(waiting: list[_Waiting]) -> int:
    """Images in a batch."""
    return sum(len(each.images) for each in waiting)


@serve.deployment(name="recogniser")
@serve.ingress(api)
class Recogniser:
    """Decodes the images of a request and classifies them in one batch with those of others.

    A request is answered by one version from beginning to end: the one that was held when it came.
    """

    def __init__(self, options: ReplicaOptions) -> None:
        os.environ["MLFLOW_TRACKING_URI"] = options.tracking_uri  # a worker of a cluster has an environment of its own
        self._options = options
        self._model = HeldModel(options.model, options.device)
        self._began: float | None = None  # of the batch that is being classified
        self._stop = threading.Event()
        self._decoders, self._network = ThreadPoolExecutor(2), ThreadPoolExecutor(1)
        self._batched.set_max_batch_size(options.limits.max_images)
        self._batched.set_batch_wait_timeout_s(options.batch_pause)
        if self._model.moves and options.reload_pause:
            follow = threading.Thread(
                target=self._model.follow, args=(options.reload_pause, self._stop), name="follow", daemon=True
            )
            follow.start()

    @api.post("/predict")
    async def predict(self, request: Request) -> JSONResponse:
        """One image file as the body, or `{"images": ["<base64>", ...]}`: a prediction for each, in order."""
        limits, held = self._options.limits, self._model.current
        body = await read_body(request, limits)
        encoded = encoded_images(request.headers.get("content-type", ""), body, limits)
        loop = asyncio.get_running_loop()
        images = await loop.run_in_executor(self._decoders, decode, encoded, held.classifier.image_size, limits)
        answer = await self._batched(_Waiting(held, images))
        return JSONResponse(
            {"model": held.title, "version": held.version, "predictions": rows_of(answer, held.classifier.class_names)}
        )

    @api.get("/health")
    async def health(self) -> JSONResponse:
        """What is served, and what stands in the way of a newer version."""
        return JSONResponse({"status": "ok", **self.state()})

    @api.get("/")
    async def about(self) -> JSONResponse:
        """What the model knows, and what a request may bring."""
        held, limits = self._model.current, self._options.limits
        return JSONResponse(
            {
                **self.state(),
                "classes": held.classifier.class_names,
                "image_size": held.classifier.image_size,
                "target_rate": held.classifier.calibration.target_rate,
                "max_images": limits.max_images,
                "max_megabytes": limits.max_megabytes,
                "max_megapixels": limits.max_megapixels,
            }
        )

    def state(self) -> dict[str, str]:
        """The model that is held, and the problem of the last look at the registry, if any."""
        held = self._model.current
        return {"model": held.title, "version": held.version, "problem": self._model.problem}

    def check_health(self) -> None:
        """Asked by Ray Serve, which replaces a replica that raises."""
        began = self._began
        if began is not None and time.monotonic() - began > STUCK:
            raise RuntimeError(f"a batch has not ended within {STUCK:g} s")

    @serve.batch(batch_size_fn=_count)  # its size and its pause are set above
    async def _batched(self, waiting: list[_Waiting]) -> list[Predictions]:
        """Predictions on the images of each, classified together; more than one call only while a version changes."""
        return await asyncio.get_running_loop().run_in_executor(self._network, self._classify, waiting)

    def _classify(self, waiting: list[_Waiting]) -> list[Predictions]:
        self._began = time.monotonic()
        try:
            answers: dict[int, Predictions] = {}
            for held in {id(each.held): each.held for each in waiting}.values():
                rows = [number for number, each in enumerate(waiting) if each.held is held]
                images = np.concatenate([waiting[row].images for row in rows])
                together = held.classifier.predict(images, self._options.device)
                ends = np.cumsum([len(waiting[row].images) for row in rows])
                for row, end in zip(rows, ends, strict=True):
                    answers[row] = together.part(end - len(waiting[row].images), end)
            return [answers[row] for row in range(len(waiting))]
        finally:
            self._began = None

    def __del__(self) -> None:
        self._stop.set()
