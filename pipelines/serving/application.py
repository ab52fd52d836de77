"""The HTTP application: one set of routes, for one process and for each replica of Ray Serve."""

import importlib.metadata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi_offline import FastAPIOffline
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.errors import ServerErrorMiddleware

from pipelines.serving import inference_protocol, messages
from pipelines.serving.access import FREE, Guard, Pages, problem
from pipelines.serving.image_bodies import encoded_images, from_base64
from pipelines.serving.metrics import Counted, exposition
from pipelines.serving.page import try_it_page, wants_page
from pipelines.serving.prediction_rows import rows_of
from pipelines.serving.recogniser import Recogniser
from pipelines.serving.served_model import name_of, title_of
from pipelines.tracking.models import LoadedModel
from proser_core.recognition.open_set_classifier import OpenSetClassifier

ByReplica = Mapping[str, Sequence[Metric]]
VERSION = importlib.metadata.version("proser")
NO_ROUTE = (404, 405)  # refusals of the router
PAGE: dict[str, Any] = {"content": {"text/html": {}}}


def _refers_to(model: type[BaseModel]) -> dict[str, Any]:
    return {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}


def _declared(path: str, content: dict[str, Any] | None, *, free: bool) -> dict[str, Any]:
    """What the schema has beside the answer: parameters of the path, the body, and that no token is needed."""
    names = [name for name in ("name", "version") if f"{{{name}}}" in path]
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    body = {"requestBody": {"required": True, "content": content}} if content else {}
    return {"parameters": parameters, **body, **({"security": []} if free else {})}


class Routes:
    """The answers of one process; `everyone` has the metrics of all of them."""

    def __init__(self, recogniser: Recogniser, everyone: Callable[[], Awaitable[ByReplica]] | None = None) -> None:
        self._recogniser, self._everyone = recogniser, everyone

    async def about(self, request: Request) -> Response:
        """The classes of the model, and the limits of a request; in a browser a page to try the model on."""
        if wants_page(request.scope):
            return try_it_page()
        classifier = self._served.classifier
        about = {
            "classes": classifier.class_names,
            "image_size": classifier.image_size,
            "target_rate": classifier.calibration.target_rate,
            "known_scores": _known_scores(classifier),
        }
        content = {**self._health(), **about, **vars(self._recogniser.options.limits)}
        return JSONResponse(content, headers={"Vary": "Accept"})

    async def health(self) -> Response:
        """The version that is served, and the problem with a newer one, if any; 503 as for /v2/health/live."""
        return JSONResponse(self._health(), 200 if self._is_live else 503)

    async def predict(self, request: Request) -> Response:
        """A prediction for each image, in order: one image file as the body, several as the files of a form, or in JSON
        as base64."""
        limits = self._recogniser.options.limits
        served, _, predictions = await self._recogniser.classify(
            request, lambda kind, body: (None, encoded_images(kind, body, limits))
        )
        rows = rows_of(predictions, served.classifier.class_names)
        return JSONResponse({"model": title_of(served), "version": served.number, "predictions": rows})

    async def metrics(self) -> Response:
        """For Prometheus: requests, times, batches, decisions and scores, by replica."""
        own = {self._recogniser.replica: self._recogniser.metrics.collect()}
        text = exposition(await self._everyone() if self._everyone else own)
        return PlainTextResponse(text, media_type=CONTENT_TYPE_PLAIN_0_0_4)

    async def server(self) -> Response:
        """Open Inference Protocol: the server."""
        return JSONResponse({"name": "proser", "version": VERSION, "extensions": []})

    async def live(self) -> Response:
        """Open Inference Protocol: 503 where a batch hangs or the last ones failed, and nothing but a new process
        helps."""
        return JSONResponse({"live": self._is_live}, 200 if self._is_live else 503)

    async def ready(self) -> Response:
        """Open Inference Protocol: 503 where the next request might get one, for now."""
        ready = self._is_live and self._recogniser.is_ready
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def model(self, request: Request) -> Response:
        """Open Inference Protocol: the tensors of the model."""
        served = self._asked(request)
        name = name_of(served)
        tensors = inference_protocol.tensors(served.classifier.class_names)
        versions = [served.number] if served.number else []
        return JSONResponse({"name": name, "versions": versions, "platform": inference_protocol.PLATFORM, **tensors})

    async def model_ready(self, request: Request) -> Response:
        """Open Inference Protocol: as /v2/health/ready, for the served version."""
        self._asked(request)
        return await self.ready()

    async def infer(self, request: Request) -> Response:
        """Open Inference Protocol: predictions on image files in base64."""
        self._asked(request)
        limits = self._recogniser.options.limits

        def read(kind: str, body: bytes) -> tuple[messages.InferenceRequest, list[bytes]]:
            message = inference_protocol.read_request(body)
            return message, from_base64(message.inputs[0].data, limits)

        served, message, predictions = await self._recogniser.classify(request, read)
        answer = {
            "model_name": name_of(served),
            "model_version": served.number,
            **({} if message.id is None else {"id": message.id}),
            "outputs": inference_protocol.outputs_of(predictions, message),
        }
        return JSONResponse(answer)

    @property
    def _served(self) -> LoadedModel:
        return self._recogniser.model.current

    @property
    def _is_live(self) -> bool:
        try:
            self._recogniser.check()
        except RuntimeError:
            return False
        return True

    def _health(self) -> dict[str, str]:
        served = self._served
        return {
            "status": "ok" if self._is_live else "broken",
            "model": title_of(served),
            "version": served.number,
            "problem": self._recogniser.model.brief,
        }

    def _asked(self, request: Request) -> LoadedModel:
        """What is served, where its name and version are those of the path."""
        served, asked = self._served, request.path_params
        if asked["name"] != name_of(served) or asked.get("version", served.number) != served.number:
            raise HTTPException(
                404, f"got the model {' version '.join(asked.values())!r}; there is {title_of(served)!r}"
            )
        return served


def _known_scores(classifier: OpenSetClassifier) -> list[float] | None:
    """Between which nine in ten of the known validation images have their unknown scores."""
    validation = classifier.validation_scores
    if validation is None:
        return None
    scores = validation.known_scores + classifier.calibration.bias
    return np.quantile(scores, (0.05, 0.95)).tolist()


def application(recogniser: Recogniser, everyone: Callable[[], Awaitable[ByReplica]] | None = None) -> FastAPI:
    """The routes of a process, counted, behind the guard, with their schema."""
    app = FastAPIOffline(title="proser", version=VERSION, redoc_url=None, static_url="/docs/files")
    routes, access = Routes(recogniser, everyone), recogniser.options.access

    def add(
        path: str, answer: Callable[..., Any], model: type[BaseModel], *errors: int, body: dict[str, Any] | None = None
    ) -> None:
        refusal = messages.Failure if path.startswith("/v2") else messages.Refusal
        responses: dict[int | str, dict[str, Any]] = {status: {"model": refusal} for status in errors}
        if model in (messages.Health, messages.Live, messages.Ready):
            responses[503] = {"model": model}  # the same answer: probes read the status
        app.add_api_route(
            path,
            answer,
            methods=["POST" if body else "GET"],
            response_model=model,
            responses=responses | ({200: PAGE} if path == "/" else {}),
            openapi_extra=_declared(path, body, free=path in FREE),
        )

    json = {"application/json": _refers_to(messages.InferenceRequest)}
    images = {
        "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        "multipart/form-data": _refers_to(messages.Form),
        "application/json": _refers_to(messages.Images),
    }
    add("/predict", routes.predict, messages.Predictions, 400, 408, 413, 415, 422, 503, body=images)
    add("/", routes.about, messages.About)
    add("/health", routes.health, messages.Health)
    for path, answer in (("/", routes.about), ("/health", routes.health)):  # some load balancers probe with it
        app.add_api_route(path, answer, methods=["HEAD"], include_in_schema=False)
    app.add_api_route("/metrics", routes.metrics, response_class=PlainTextResponse)
    add("/v2", routes.server, messages.ServerMetadata)
    add("/v2/health/live", routes.live, messages.Live)
    add("/v2/health/ready", routes.ready, messages.Ready)
    for path in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        add(path, routes.model, messages.ModelMetadata, 404)
        add(f"{path}/ready", routes.model_ready, messages.Ready, 404)
        add(f"{path}/infer", routes.infer, messages.InferenceResponse, 400, 404, 408, 413, 422, 503, body=json)
    app.add_exception_handler(StarletteHTTPException, _refused)
    app.add_middleware(Guard, access=access)
    app.add_middleware(ServerErrorMiddleware, handler=_failed)  # within Pages: a handler of Exception answers outside
    app.add_middleware(Pages, access=access)  # before the guard: what asks for a page has no token
    app.add_middleware(Counted, metrics=recogniser.metrics)
    _complete(app.openapi(), needs_token=access.token is not None)
    return app


def _complete(schema: dict[str, Any], *, needs_token: bool) -> None:
    """Add the bodies of requests, which FastAPI does not read because it would hold no limits, and the token."""
    read = [(model, "validation") for model in (messages.Images, messages.Form, messages.InferenceRequest)]
    _, definitions = models_json_schema(read, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    schema["components"]["schemas"] |= definitions["$defs"]
    if needs_token:
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        schema["security"] = [{"token": []}]


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    headers, text = dict(error.headers or {}), error.detail
    if error.status_code in NO_ROUTE and text == HTTPStatus(error.status_code).phrase:  # the router says no more
        allowed = headers.get("Allow", "")
        need = f"{allowed} with an image" if allowed == "POST" else allowed or "another path"
        text = f"got {request.method} {request.scope['path']}; need {need}. All routes: /docs"
    return problem(request.scope, error.status_code, text, headers)


async def _failed(request: Request, error: Exception) -> Response:
    return problem(request.scope, 500, "the server failed at this request; its log says why")
