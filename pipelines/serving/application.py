"""The Ray Serve application: what a replica does with a request."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from ray import serve

from pipelines.serving.batching import Batcher, Images
from pipelines.serving.http import decoded_images, read_body, rows_of
from pipelines.serving.limits import Limits
from pipelines.serving.served_model import Held, HeldModel
from proser_core.recognition.open_set_classifier import Predictions

api = FastAPI(title="proser", docs_url=None, redoc_url=None)  # their pages come from a server elsewhere


@dataclass(frozen=True)
class ReplicaOptions:
    """What a replica needs to know; the pause in seconds."""

    model: str
    tracking_uri: str
    device: str
    limits: Limits
    reload_pause: float


@serve.deployment(name="recogniser")
@serve.ingress(api)
class Recogniser:
    """Decodes the images of a request and classifies them in one batch with those of others.

    A request is answered by one version from beginning to end: the one that was held when it came.
    """

    def __init__(self, options: ReplicaOptions) -> None:
        self._stop = threading.Event()
        os.environ["MLFLOW_TRACKING_URI"] = options.tracking_uri  # a worker of a cluster has an environment of its own
        self._options, self._decoders = options, ThreadPoolExecutor(2)
        self._model = HeldModel(options.model, options.device)
        self._batcher = Batcher(self._classify, options.limits.max_images)
        if self._model.moves:
            follow = threading.Thread(
                target=self._model.follow, args=(options.reload_pause, self._stop), name="follow", daemon=True
            )
            follow.start()

    @api.post("/predict")
    async def predict(self, request: Request) -> JSONResponse:
        """One image file as the body, or `{"images": ["<base64>", ...]}`: a prediction for each, in order."""
        held = self._model.current
        answer = await self._batcher.submit(Images(held, await self._decoded(request, held.classifier.image_size)))
        rows = rows_of(answer, held.classifier.class_names)
        return JSONResponse({"model": held.title, "version": held.version, "predictions": rows})

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
                **vars(limits),
            }
        )

    def state(self) -> dict[str, str]:
        """The model that is held, and the problem of the last look at the registry, if any."""
        held = self._model.current
        replica = serve.get_replica_context().replica_id.unique_id
        return {"model": held.title, "version": held.version, "problem": self._model.problem, "replica": replica}

    def check_health(self) -> None:
        """Asked by Ray Serve, which replaces a replica that raises."""
        self._batcher.check()

    async def _decoded(self, request: Request, size: int) -> np.ndarray:
        """The pixels of a request; its body is let go before they wait for a batch."""
        limits = self._options.limits
        body, kind = await read_body(request, limits), request.headers.get("content-type", "")
        return await asyncio.get_running_loop().run_in_executor(
            self._decoders, decoded_images, kind, body, size, limits
        )

    def _classify(self, held: Held, pixels: np.ndarray) -> Predictions:
        return held.classifier.predict(pixels, self._options.device)

    def __del__(self) -> None:
        self._stop.set()
