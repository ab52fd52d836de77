"""The Open Inference Protocol, version 2, over HTTP: one input, `image`, of image files in base64, and four outputs.

https://github.com/kserve/open-inference-protocol, specification/protocol/inference_rest.md
"""

from typing import Any

from fastapi import HTTPException
from pydantic import ValidationError

from pipelines.serving.messages import InferenceRequest
from pipelines.serving.prediction_rows import rounded
from proser_core.recognition.open_set_classifier import Predictions

DATATYPES = {"label": "BYTES", "unknown": "BOOL", "unknown_score": "FP64", "probabilities": "FP64"}
PLATFORM = "proser"


def read_request(body: bytes) -> InferenceRequest:
    """Raises HTTPException 400 with the first field that is not as it must be."""
    try:
        request = InferenceRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise HTTPException(400, f"{where}: {first['msg']}; need one input `image` of BYTES in base64") from error
    (images,) = request.inputs
    if images.shape not in ([len(images.data)], [len(images.data), 1]):
        raise HTTPException(
            400, f"inputs.0.shape: got {images.shape} for {len(images.data)} images; need [{len(images.data)}]"
        )
    return request


def tensors(class_names: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """The inputs and outputs of the model; -1 is the number of images."""
    shapes = {name: [-1, len(class_names) + 1] if name == "probabilities" else [-1] for name in DATATYPES}
    return {
        "inputs": [{"name": "image", "datatype": "BYTES", "shape": [-1]}],
        "outputs": [{"name": name, "datatype": kind, "shape": shapes[name]} for name, kind in DATATYPES.items()],
    }


def outputs_of(predictions: Predictions, request: InferenceRequest) -> list[dict[str, Any]]:
    """The outputs that were asked for; probabilities in the order of the classes, unknown last."""
    shown = rounded(predictions)
    images, columns = predictions.probabilities.shape
    values: dict[str, list[Any]] = {
        "label": predictions.labels,
        "unknown": (predictions.indices == columns - 1).tolist(),
        "unknown_score": shown.unknown_scores.tolist(),
        "probabilities": shown.probabilities.ravel().tolist(),
    }
    wanted = list(DATATYPES) if request.outputs is None else [each.name for each in request.outputs]
    shapes = {name: [images, columns] if name == "probabilities" else [images] for name in wanted}
    return [{"name": n, "datatype": DATATYPES[n], "shape": shapes[n], "data": values[n]} for n in wanted]
