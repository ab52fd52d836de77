"""The messages as the schema has them; those of the Open Inference Protocol are read by it too."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field


class Images(BaseModel):
    """Image files in base64."""

    images: list[str] = Field(min_length=1)


class Form(BaseModel):
    """Image files, under any name."""

    images: list[bytes] = Field(min_length=1)


class Prediction(BaseModel):
    """The prediction for one image. `label` is a class or `unknown`; `unknown_score` is above 0 for unknown, to 6
    significant digits; `nearest_class` is the likeliest known class, also of an unknown image; `probabilities` by class
    and for `unknown`, to 6 decimals."""

    label: str
    unknown: bool
    unknown_score: float
    nearest_class: str
    probabilities: dict[str, float]


class Predictions(BaseModel):
    """A prediction for each image, in order, by one version of the model."""

    model: str
    version: str
    predictions: list[Prediction]


class Health(BaseModel):
    """The version that is served, and the `problem` with a newer one, if any; `broken` where nothing but a new process
    helps."""

    status: Literal["ok", "broken"]
    model: str
    version: str
    problem: str


class About(Health):
    """The version that is served, its classes, and the limits of a request. Nine in ten known validation
    images of the model's training have their unknown scores between the two `known_scores`; null where the model does
    not keep them."""

    classes: list[str]
    image_size: int
    target_rate: float
    known_scores: list[float] | None
    max_images: int
    max_megabytes: float
    max_megapixels: float
    max_seconds: float


class Refusal(BaseModel):
    """What was got, what is needed, and what to do."""

    detail: str


class Failure(BaseModel):
    """The same in the words of the Open Inference Protocol."""

    error: str


class Tensor(BaseModel):
    """A tensor, or what one is like."""

    name: str
    datatype: str
    shape: list[int]


class Output(Tensor):
    """A tensor with its values in row-major order."""

    data: list[Any]


class Input(BaseModel):
    """Image files in base64, the shape their number."""

    name: Literal["image"]
    datatype: Literal["BYTES"]
    shape: list[int] = Field(max_length=2)
    data: list[str] = Field(min_length=1, fail_fast=True)  # an error for each of a million elements would take minutes


class Requested(BaseModel):
    """An output by its name."""

    name: Literal["label", "unknown", "unknown_score", "probabilities"]


class InferenceRequest(BaseModel):
    """One input, `image`, and the outputs that are wanted, by default all."""

    id: str | None = None
    inputs: list[Input] = Field(min_length=1, max_length=1)
    outputs: Annotated[list[Requested], Field(max_length=4)] | None = None


class InferenceResponse(BaseModel):
    """The outputs that were asked for, one row per image."""

    model_name: str
    model_version: str
    id: str | None = None
    outputs: list[Output]


class ServerMetadata(BaseModel):
    """Name and version of the server."""

    name: str
    version: str
    extensions: list[str]


class ModelMetadata(BaseModel):
    """The model and its tensors; -1 is the number of images."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[Tensor]
    outputs: list[Tensor]


class Live(BaseModel):
    """Whether the process works."""

    live: bool


class Ready(BaseModel):
    """Whether requests are answered now."""

    ready: bool
