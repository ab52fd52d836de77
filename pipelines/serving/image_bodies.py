"""Images in the body of a request to /predict: one file as the body, several in a form, or in JSON,
`{"images": ["<base64>", ...]}`.

Errors are HTTPExceptions: 400 a malformed body, 413 too many images or pixels, 415 another kind of form, 422 an image
that cannot be decoded.
"""

import base64
import binascii
import json
import re
from collections.abc import Sequence

import numpy as np
from fastapi import HTTPException

from pipelines.serving.limits import MEGABYTE, Limits
from proser_core.data.decoding import count_pixels, decode_square
from proser_core.errors import DataError, ImageTooLargeError
from proser_core.titles import counted

FORMS = (
    'one image file as the body, several as the files of a multipart/form-data form, or JSON as {"images": '
    '["<base64>", ...]} with Content-Type application/json'
)
# Python's own parser of such parameters raises TypeError for `filename*=a; filename*0=b`.
BOUNDARY = re.compile(r';\s*boundary\s*=\s*(?:"([^"]*)"|([^\s;]*))', re.IGNORECASE)
QUOTED = re.compile(rb'"(?:[^"\\\r\n]|\\.)*"?')
FILE = re.compile(rb"^content-disposition:.*;[ \t]*filename\*?[ \t]*=", re.IGNORECASE | re.MULTILINE)
"""In the head of a part of a form, without what is quoted there."""
NOT_CHOSEN = b'filename=""'
"""Of an input for files that was left empty, which browsers send without content."""
HEAD = 8192  # bytes that are looked at: more could only cost time
OTHER_FIELDS = 16  # of a form or of JSON, beside its images


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
    return from_base64(images, limits)


def _of_form(content_type: str, body: bytes, limits: Limits) -> list[bytes]:
    """The files of a form (RFC 7578); its other fields are ignored. Its parts are counted before they are copied."""
    named = BOUNDARY.search(content_type)
    boundary = (named[1] or named[2] or "" if named else "").encode("latin-1")  # as headers are decoded
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
    named_files = ((head, content) for head, _, content in divided if FILE.search(QUOTED.sub(b"", head[:HEAD])))
    files = [content for head, content in named_files if content or NOT_CHOSEN not in head]
    if not files:
        raise HTTPException(400, f"got a form without a file; need {FORMS}")
    _check_count(len(files), limits)
    return files


def from_base64(texts: Sequence[object], limits: Limits) -> list[bytes]:
    """The content of image files. Raises HTTPException for too many, or with the number of one that is not
    base64."""
    _check_count(len(texts), limits)
    return [_decoded(text, number) for number, text in enumerate(texts)]


def _decoded(text: object, number: int) -> bytes:
    if not isinstance(text, str):
        raise HTTPException(400, f"image {number} is no text; need an image file's content as base64 text")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise HTTPException(400, f"image {number} is not base64 ({error}); encode the image file's content") from error


def _check_count(images: int, limits: Limits) -> None:
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
