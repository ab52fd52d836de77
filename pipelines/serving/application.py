"""The Ray Serve application: what a replica does with a request."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from ray import serve

from pipelines.serving.batching import Batcher, RequestImages
from pipelines.serving.http import decoded_images, read_body, rows_of
from pipelines.serving.limits import Limits
from pipelines.serving.served_model import ServedModel

api = FastAPI(title="proser", docs_url=None, redoc_url=None)  # these pages load scripts from other servers


@dataclass(frozen=True)
class ReplicaOptions:
    """Options of a replica; the pause in seconds."""

    model: str
    tracking_uri: str
    device: str
    limits: Limits
    reload_pause: float


@serve.deployment(name="recogniser")
@serve.ingress(api)
class Recogniser:
    """Decodes the images of a request and classifies them in one batch with those of others. One version answers a
    request from beginning to end: the one that was served when it arrived."""

    def __init__(self, options: ReplicaOptions) -> None:
        self._stop = threading.Event()
        os.environ["MLFLOW_TRACKING_URI"] = options.tracking_uri  # workers of a cluster have their own environment
        self._options, self._decoders = options, ThreadPoolExecutor(2)
        self._model = ServedModel(options.model, options.device)
        self._batcher = Batcher(
            lambda served, pixels: served.classifier.predict(pixels, options.device), options.limits.max_images
        )
        if self._model.has_alias:
            follow = threading.Thread(
                target=self._model.follow, args=(options.reload_pause, self._stop), name="follow", daemon=True
            )
            follow.start()

    @api.post("/predict")
    async def predict(self, request: Request) -> JSONResponse:
        """One image file as the body, or `{"images": ["<base64>", ...]}`: a prediction for each, in order."""
        served = self._model.current
        pixels = await self._decoded(request, served.classifier.image_size)
        rows = rows_of(await self._batcher.submit(RequestImages(served, pixels)), served.classifier.class_names)
        return JSONResponse({"model": served.title, "version": served.number, "predictions": rows})

    @api.get("/health")
    async def health(self) -> dict[str, str]:
        """The version that is served, and why a newer one is not."""
        return {"status": "ok", **self.state()}

    @api.get("/")
    async def about(self) -> dict[str, Any]:
        """The classes of the model, and the limits of a request."""
        classifier = self._model.current.classifier
        return {
            **self.state(),
            "classes": classifier.class_names,
            "image_size": classifier.image_size,
            "target_rate": classifier.calibration.target_rate,
            **vars(self._options.limits),
        }

    def state(self) -> dict[str, str]:
        """The version that is served, and the problem of the last poll of the registry, if any."""
        served = self._model.current
        replica = serve.get_replica_context().replica_id.unique_id
        return {"model": served.title, "version": served.number, "problem": self._model.problem, "replica": replica}

    def check_health(self) -> None:
        """Asked by Ray Serve, which replaces a replica that raises."""
        self._batcher.check()

    async def _decoded(self, request: Request, size: int) -> np.ndarray:
        """The pixels of a request; its body is freed before they wait for a batch."""
        limits = self._options.limits
        body, kind = await read_body(request, limits), request.headers.get("content-type", "")
        return await asyncio.get_running_loop().run_in_executor(
            self._decoders, decoded_images, kind, body, size, limits
        )

    def __del__(self) -> None:
        self._stop.set()
