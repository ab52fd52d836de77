"""Bodies of requests and responses: one encoded image, or several in JSON, `{"images": ["<base64>", ...]}`; the
response has a prediction for each.

Errors are HTTPExceptions: 400 malformed JSON, 408 a body that does not arrive, 413 too large, 415 another kind of body,
422 an image that cannot be decoded.
"""

import asyncio
import base64
import binascii
import json
from typing import Any

import numpy as np
from fastapi import HTTPException, Request

from pipelines.serving.limits import MEGABYTE, Limits
from proser_core.data.decoding import count_pixels, decode_square
from proser_core.errors import DataError, ImageTooLargeError
from proser_core.naming import UNKNOWN
from proser_core.recognition.open_set_classifier import Predictions

FORMS = 'one image file as the body, or JSON as {"images": ["<base64>", ...]} with Content-Type application/json'


async def read_body(request: Request, limits: Limits) -> bytes:
    """The whole body. One that is too long is refused by its Content-Length, or as soon as too much has arrived; one
    that does not arrive in time, when the time is over."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limits.max_bytes:
        raise _too_long(int(announced), limits)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.max_seconds):
            async for part in request.stream():
                body += part
                if len(body) > limits.max_bytes:
                    raise _too_long(len(body), limits)
    except TimeoutError as error:
        raise HTTPException(
            408, f"got {len(body)} bytes of a body in {limits.max_seconds:g} s; send the whole of it in that time"
        ) from error
    return bytes(body)


def encoded_images(content_type: str, body: bytes, limits: Limits) -> list[bytes]:
    """The image files in a body, still encoded."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind.startswith("multipart/"):
        raise HTTPException(415, f"got {kind}; need {FORMS}")
    if kind != "application/json":  # whatever curl calls it: other content fails to decode
        if not body:
            raise HTTPException(400, f"got an empty body; need {FORMS}")
        return [body]
    try:
        content = json.loads(body)
    except ValueError as error:  # of JSON, or of UTF-8
        raise HTTPException(400, f"got a body that is not JSON ({error}); need {FORMS}") from error
    except RecursionError as error:
        raise HTTPException(400, f"got JSON that is nested too deeply; need {FORMS}") from error
    images = content.get("images") if isinstance(content, dict) else None
    if not isinstance(images, list) or not images:
        raise HTTPException(400, f"got JSON without a list of images; need {FORMS}")
    if len(images) > limits.max_images:
        raise HTTPException(
            413, f"got {len(images)} images; need {limits.max_images} or fewer per request. Send several requests"
        )
    return [_from_base64(text, number) for number, text in enumerate(images)]


def decoded_images(content_type: str, body: bytes, size: int, limits: Limits) -> np.ndarray:
    """The images of a body, uint8[n, size, size, 3]."""
    encoded = encoded_images(content_type, body, limits)
    names = [f"image {number}" for number in range(len(encoded))]
    try:
        pixels = sum(count_pixels(content, name) for content, name in zip(encoded, names, strict=True))
        if pixels > limits.max_pixels:
            raise HTTPException(
                413,
                f"got {pixels / MEGABYTE:.1f} megapixels in {len(encoded)} image(s); need {limits.max_megapixels:g} or "
                "fewer per request. Send smaller or fewer images",
            )
        return np.stack([decode_square(content, size, name) for content, name in zip(encoded, names, strict=True)])
    except ImageTooLargeError as error:
        raise HTTPException(413, str(error)) from error
    except DataError as error:
        raise HTTPException(422, str(error)) from error


def rows_of(predictions: Predictions, class_names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The predictions as rows for JSON."""
    names = (*class_names, UNKNOWN)
    numbers = (
        values.tolist() for values in (predictions.indices, predictions.unknown_scores, predictions.probabilities)
    )
    return [
        {
            "label": label,
            "unknown": index == len(class_names),
            "unknown_score": score,
            "probabilities": dict(zip(names, row, strict=True)),
        }
        for label, index, score, row in zip(predictions.labels, *numbers, strict=True)
    ]


def _from_base64(text: object, number: int) -> bytes:
    if not isinstance(text, str):
        raise HTTPException(400, f"image {number} is a {type(text).__name__}; need an image file's content in base64")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise HTTPException(400, f"image {number} is not base64 ({error}); encode the image file's content") from error


def _too_long(length: int, limits: Limits) -> HTTPException:
    return HTTPException(
        413,
        f"got a body of {length / MEGABYTE:.1f} MB or more; need {limits.max_megabytes:g} MB or less per request. "
        "Send fewer or smaller images",
    )
