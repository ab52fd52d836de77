"""Bodies of requests and responses at /predict: image files, one as the body or several in a form, or in JSON,
`{"images": ["<base64>", ...]}`; the response has a prediction for each.

Errors are HTTPExceptions: 400 a malformed body, 408 one that does not arrive, 413 too large, 415 another kind of form,
422 an image that cannot be decoded, 499 a client that left, 503 too many requests at a time.
"""

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import numpy as np
from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from pipelines.serving.limits import MEGABYTE, Limits
from proser_core.data.decoding import count_pixels, decode_square
from proser_core.errors import DataError, ImageTooLargeError
from proser_core.naming import UNKNOWN
from proser_core.recognition.open_set_classifier import Predictions
from proser_core.titles import counted

FORMS = (
    'one image file as the body, several as the files of a multipart/form-data form, or JSON as {"images": '
    '["<base64>", ...]} with Content-Type application/json'
)
Answer = TypeVar("Answer")
DIGITS = 6
# Python's own parser of such parameters raises TypeError for `filename*=a; filename*0=b`.
BOUNDARY = re.compile(r';\s*boundary\s*=\s*(?:"([^"]*)"|([^\s;]*))', re.IGNORECASE)
QUOTED = re.compile(rb'"(?:[^"\\\r\n]|\\.)*"?')
FILE = re.compile(rb"^content-disposition:.*;[ \t]*filename\*?[ \t]*=", re.IGNORECASE | re.MULTILINE)
"""In the head of a part of a form, without what is quoted there."""
HEAD = 8192  # bytes that are looked at: more could only cost time
OTHER_FIELDS = 16  # of a form or of JSON, beside its images
RETRY_AFTER_S = "1"
CLIENT_LEFT = 499  # nginx's, in its log


async def read_body(request: Request, limits: Limits, hold: Callable[[int], None]) -> bytes:
    """The whole body, of which `hold` counts the bytes that arrive. One that is too long is refused by its
    Content-Length, or as soon as too much has arrived; one that does not arrive in time, when the time is over."""
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
                hold(len(part))
    except TimeoutError as error:
        raise HTTPException(
            408, f"got {len(body)} bytes of a body in {limits.max_seconds:g} s; send the whole of it in that time"
        ) from error
    except ClientDisconnect as error:  # nobody reads the answer; it is counted
        raise HTTPException(CLIENT_LEFT, "the client left before its body was sent") from error
    return bytes(body)


async def while_connected(request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
    """What `work` returns on a request whose body was read. It is cancelled if the client leaves: Ray Serve cancels a
    request then, uvicorn does not."""
    working, leaving = asyncio.create_task(work), asyncio.create_task(_until_it_leaves(request))
    leaving.add_done_callback(lambda _: _has_left(leaving) and working.cancel())
    try:
        return await working
    except asyncio.CancelledError as error:
        if _has_left(leaving):  # nobody reads the answer; it is counted
            raise HTTPException(CLIENT_LEFT, "the client left before its answer") from error
        raise
    finally:
        leaving.cancel()


async def _until_it_leaves(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _has_left(leaving: "asyncio.Task[None]") -> bool:
    """Not so where `receive` failed, as that of Ray Serve may: nothing is known of the client then."""
    return leaving.done() and not leaving.cancelled() and leaving.exception() is None


def busy(reason: str) -> HTTPException:
    """The refusal of a request that another moment can take."""
    return HTTPException(503, f"{reason}; send this one again later", {"Retry-After": RETRY_AFTER_S})


def encoded_images(content_type: str, body: bytes, limits: Limits) -> list[bytes]:
    """The image files in a body, still encoded."""
    kind = content_type.partition(";")[0].strip().lower()
    if not body:
        raise HTTPException(400, f"got an empty body; need {FORMS}")
    if kind == "application/json":
        return _of_json(body, limits)
    if kind == "multipart/form-data":
        return _of_form(content_type, body, limits)
    if kind.startswith("multipart/"):
        raise HTTPException(415, f"got {kind}; need {FORMS}")
    return [body]  # whatever curl calls it: other content fails to decode


def _of_json(body: bytes, limits: Limits) -> list[bytes]:
    """Its values are counted before they are parsed: `{},` becomes 72 bytes, and every other request waits for it."""
    values = sum(body.count(sign) for sign in (b",", b"[", b"{"))  # or fewer, where a text has these signs
    if values > limits.max_images + OTHER_FIELDS:
        raise HTTPException(
            413,
            f"got JSON of up to {values} values; need {limits.max_images} images or fewer, and {OTHER_FIELDS} other "
            "values or fewer. Send several requests",
        )
    try:
        content = json.loads(body)
    except ValueError as error:  # of JSON, or of UTF-8
        raise HTTPException(400, f"got a body that is not JSON ({error}); need {FORMS}") from error
    except RecursionError as error:
        raise HTTPException(400, f"got JSON that is nested too deeply; need {FORMS}") from error
    images = content.get("images") if isinstance(content, dict) else None
    if not isinstance(images, list) or not images:
        raise HTTPException(400, f"got JSON without a list of images; need {FORMS}")
    check_count(len(images), limits)
    return [from_base64(text, number) for number, text in enumerate(images)]


def _of_form(content_type: str, body: bytes, limits: Limits) -> list[bytes]:
    """The files of a form (RFC 7578); its other fields are ignored. Its parts are counted before they are copied."""
    named = BOUNDARY.search(content_type)
    boundary = (named[1] or named[2] or "" if named else "").encode("utf-8", "surrogateescape")
    line, whole = b"\r\n--" + boundary, b"\r\n" + body
    count = whole.count(line) - 1
    if count > limits.max_images + OTHER_FIELDS:
        raise HTTPException(
            413,
            f"got a form of {count} fields; need {limits.max_images} images or fewer, and {OTHER_FIELDS} other fields "
            "or fewer. Send several requests",
        )
    _, *parts = whole.split(line)
    if not (boundary and parts and parts.pop().startswith(b"--")):
        raise HTTPException(400, f"got a form that does not end with its boundary; need {FORMS}")
    divided = (part.partition(b"\r\n\r\n") for part in parts)
    files = [content for head, _, content in divided if FILE.search(QUOTED.sub(b"", head[:HEAD]))]
    if not files:
        raise HTTPException(400, f"got a form without a file; need {FORMS}")
    check_count(len(files), limits)
    return files


def check_count(images: int, limits: Limits) -> None:
    """Refuse more images than one request may have."""
    if images > limits.max_images:
        raise HTTPException(
            413, f"got {images} images; need {limits.max_images} or fewer per request. Send several requests"
        )


def decoded_images(encoded: list[bytes], size: int, limits: Limits, content_type: str = "") -> np.ndarray:
    """uint8[n, size, size, 3]; `content_type` is what the body came as."""
    names = [f"image {number}" for number in range(len(encoded))]
    try:
        pixels = sum(count_pixels(content, name) for content, name in zip(encoded, names, strict=True))
        if pixels > limits.max_pixels:
            raise HTTPException(
                413,
                f"got {pixels / MEGABYTE:.1f} megapixels in {counted(len(encoded), 'image')}; need "
                f"{limits.max_megapixels:g} or fewer per request. Send smaller or fewer images",
            )
        return np.stack([decode_square(content, size, name) for content, name in zip(encoded, names, strict=True)])
    except ImageTooLargeError as error:
        raise HTTPException(413, str(error)) from error
    except DataError as error:
        is_form = content_type.startswith("application/x-www-form-urlencoded")  # curl -d drops bytes of a file
        raise HTTPException(422, f"{error}{'. With curl, send it with --data-binary @FILE' * is_form}") from error


def rounded(predictions: Predictions) -> tuple[list[float], list[list[float]]]:
    """Unknown scores to DIGITS significant digits, and probabilities to as many decimals. A score keeps its sign, which
    is the decision, and the order of either stays; what is rounded away is less than another batch changes."""
    scores = [float(f"{score:.{DIGITS}g}") for score in predictions.unknown_scores.tolist()]
    return scores, predictions.probabilities.round(DIGITS).tolist()


def rows_of(predictions: Predictions, class_names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The predictions as rows for JSON."""
    names = (*class_names, UNKNOWN)
    return [
        {
            "label": label,
            "unknown": index == len(class_names),
            "unknown_score": score,
            "nearest_class": class_names[nearest],
            "probabilities": dict(zip(names, row, strict=True)),
        }
        for label, index, nearest, score, row in zip(
            predictions.labels,
            predictions.indices.tolist(),
            predictions.known_predictions.tolist(),
            *rounded(predictions),
            strict=True,
        )
    ]


def from_base64(text: object, number: int) -> bytes:
    """An image file's content. Raises HTTPException with the number of the image."""
    if not isinstance(text, str):
        raise HTTPException(400, f"image {number} is no text; need an image file's content as base64 text")
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
