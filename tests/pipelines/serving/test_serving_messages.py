"""What `proser serve` reads and writes: images in bodies, and what is refused before it is decoded."""

import asyncio
import base64
import io
import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import pytest
from fastapi import HTTPException, Request
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError
from served_models import JSON, LIMITS, as_json, large_image

from pipelines.serving.arriving_requests import read_body, while_connected
from pipelines.serving.image_bodies import decoded_images, encoded_images
from pipelines.serving.inference_protocol import read_request
from pipelines.serving.limits import Limits
from pipelines.serving.messages import InferenceRequest

Read = TypeVar("Read")
BASE64 = st.binary(max_size=6).map(lambda content: base64.b64encode(content).decode())
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | BASE64,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=4), each, max_size=3),
    max_leaves=6,
)
"""Whatever JSON can hold."""
LISTS = st.lists(BASE64, min_size=1, max_size=3) | st.lists(BASE64 | VALUES, max_size=3) | VALUES
"""What may come in place of the images, often images."""
PIECES = (b"\r\n--x\r\n", b'Content-Disposition: form-data; name=a; filename="1.png"\r\n\r\n', b'; filename=""')


def read_or_refused(read: Callable[[], Read], *statuses: int) -> Read | None:
    """What was read; None where it was refused, with one of these statuses."""
    try:
        return read()
    except HTTPException as error:
        status = error.status_code
    assert status in statuses
    return None


class TestMessages:
    @given(st.binary(max_size=40) | LISTS.map(lambda images: json.dumps({"images": images}).encode()))
    @example(json.dumps({"images": ["\u00e4"]}).encode())
    def test_whatever_comes_as_json_is_read_or_refused(self, body: bytes) -> None:
        found = read_or_refused(lambda: encoded_images(JSON, body, LIMITS), 400, 413)
        if found is not None:
            assert found == [base64.b64decode(text, validate=True) for text in json.loads(body)["images"]] != []

    @given(data=LISTS, shape=st.sampled_from([[1], [2], [2, 1]]) | VALUES)
    def test_whatever_comes_by_the_protocol_is_read_or_refused(self, data: Any, shape: Any) -> None:
        tensor = {"name": "image", "datatype": "BYTES", "shape": shape, "data": data}
        found = read_or_refused(lambda: read_request(json.dumps({"inputs": [tensor]}).encode()), 400)
        if found is not None:
            assert found.inputs[0].data == data != []
            assert found.inputs[0].shape[0] == len(data)

    @given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=16))
    def test_what_was_encoded_comes_back(self, files: list[bytes]) -> None:
        assert encoded_images("application/json; charset=utf-8", json.dumps(as_json(files)).encode(), LIMITS) == files

    @given(
        st.lists(st.sampled_from(PIECES) | st.binary(max_size=20), max_size=8).map(b"".join),
        st.sampled_from(["=x", "=x", "=", '="x y"', "=\u00e4", "*=x; boundary*0=x"]),
        st.booleans(),
    )
    def test_whatever_comes_as_a_form_is_read_or_refused(self, body: bytes, boundary: str, closed: bool) -> None:
        whole = b"--x\r\n" + body + b"\r\n--x--" * closed
        kind = f"multipart/form-data; boundary{boundary}"
        found = read_or_refused(lambda: encoded_images(kind, whole, LIMITS), 400, 413)
        if found is not None:
            assert b"\r\n--x--" in whole
            assert found
            assert all(content in whole for content in found)

    @pytest.mark.parametrize(
        ("field", "value", "error"),
        [
            ("inputs", [{"name": "image", "datatype": "BYTES", "shape": [1], "data": [1] * 1000}], "inputs.0.data.0: "),
            (
                "inputs",
                [{"name": "image", "datatype": "BYTES", "shape": ["x"] * 1000, "data": ["a"]}],
                "inputs.0.shape",
            ),
            ("outputs", [{"name": "probabilities"}] * 5, "outputs: "),
            ("outputs", [{"name": "image"}] * 1000, "outputs: "),
        ],
    )
    def test_a_long_list_costs_no_more_than_its_first_errors(self, field: str, value: list[Any], error: str) -> None:
        images = [{"name": "image", "datatype": "BYTES", "shape": [1], "data": ["a"]}]
        body = json.dumps({"inputs": images, field: value}).encode()
        with pytest.raises(ValidationError) as counted:
            InferenceRequest.model_validate_json(body)
        assert counted.value.error_count() <= 5
        with pytest.raises(HTTPException) as refused:
            read_request(body)
        assert refused.value.status_code == 400
        assert refused.value.detail.startswith(error)

    @pytest.mark.parametrize(
        ("about", "is_file"),
        [
            (b'form-data; name="filename"', False),
            (b"form-data; name=filename", False),
            (b'form-data; name="a; filename=b"', False),
            (b'form-data; name="a\\"; filename=\\"b"', False),
            (b'form-data; name="a"\r\nX-Note: b; filename=c', False),
            (b'form-data; name="a"; filename=""', True),
            (b'form-data; name="a"; filename="b\\".png"', True),
            (b'form-data; filename="K\xc3\xa4fer.png"; name="a"', True),
            (b"form-data;name=a;FileName=b.png", True),
            (b"form-data; name=a; filename*=UTF-8''b.png", True),
        ],
    )
    def test_a_part_of_a_form_is_a_file_where_it_has_a_file_name(self, about: bytes, is_file: bool) -> None:
        part = b"--x\r\nContent-Disposition: %s\r\n\r\n%s\r\n"
        body = part % (about, b"one") + part % (b'form-data; name="image"; filename="1.png"', b"two") + b"--x--"
        found = encoded_images("multipart/form-data; boundary=x", body, LIMITS)
        assert found == ([b"one", b"two"] if is_file else [b"two"])

    def test_a_boundary_may_have_bytes_of_no_text(self) -> None:
        body = b'--\xe4\r\nContent-Disposition: form-data; filename="1.png"\r\n\r\none\r\n--\xe4--'
        assert encoded_images(b"multipart/form-data; boundary=\xe4".decode("latin-1"), body, LIMITS) == [b"one"]

    @pytest.mark.parametrize(
        "body", [b"[1]", b'{"images": []}', b'{"images": [1]}', b'{"images": ["?"]}', b"[" * 100_000]
    )
    def test_other_json_says_what_is_needed(self, body: bytes) -> None:
        with pytest.raises(HTTPException) as caught:
            encoded_images(JSON, body, replace(LIMITS, max_images=10**6))
        assert caught.value.status_code == 400
        assert "base64" in caught.value.detail

    def test_an_image_in_json_that_is_no_text_is_told_in_the_words_of_json(self) -> None:
        with pytest.raises(HTTPException) as caught:
            encoded_images(JSON, b'{"images": [1]}', LIMITS)
        assert caught.value.detail == "image 0 is no text; need an image file's content as base64 text"

    @pytest.mark.parametrize(
        ("files", "fields", "refused"),
        [(16, 0, ""), (16, 16, ""), (17, 0, "got 17 images; need 16 or fewer"), (1, 32, "got a form of 33 fields")],
    )
    def test_other_fields_of_a_form_do_not_count_as_images(self, files: int, fields: int, refused: str) -> None:
        part = b"--x\r\nContent-Disposition: form-data; name=a%s\r\n\r\none\r\n"
        body = part % b"" * fields + part % b"; filename=b.png" * files + b"--x--"
        with pytest.raises(HTTPException, match=refused) if refused else nullcontext():
            assert encoded_images("multipart/form-data; boundary=x", body, LIMITS) == [b"one"] * files

    def test_an_empty_body_is_refused(self) -> None:
        with pytest.raises(HTTPException, match="empty body"):
            encoded_images("", b"", LIMITS)

    def test_a_body_without_a_length_is_refused_once_too_much_has_come(self) -> None:
        held: list[int] = []
        parts = iter([b"x" * 150_000, b"x" * 150_000, b"never asked for"])

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": next(parts), "more_body": True}

        request = Request({"type": "http", "headers": []}, receive)
        with pytest.raises(HTTPException) as caught:
            asyncio.run(read_body(request, LIMITS, held.append))
        assert (caught.value.status_code, held) == (413, [150_000])
        assert next(parts) == b"never asked for"

    def test_a_body_that_does_not_arrive_is_given_up(self) -> None:
        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        request = Request({"type": "http", "headers": []}, receive)
        with pytest.raises(HTTPException, match=r"0 bytes of a body in 0\.05 s; send the whole") as caught:
            asyncio.run(read_body(request, Limits(max_seconds=0.05), [].append))
        assert caught.value.status_code == 408

    def test_a_connection_that_fails_is_no_client_that_left(self) -> None:
        """As Ray's may fail: the work goes on."""

        async def receive() -> dict[str, Any]:
            raise OSError

        async def work() -> str:
            await asyncio.sleep(0.01)
            return "done"

        assert asyncio.run(while_connected(Request({"type": "http"}, receive), work())) == "done"

    def test_images_of_too_many_pixels_together_are_refused_before_any_is_decoded(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        two = [large_image(), large_image()]
        assert decoded_images(two, 8, replace(LIMITS, max_megapixels=0.04)).shape == (2, 8, 8, 3)
        monkeypatch.setattr("pipelines.serving.image_bodies.decode_square", None)
        with pytest.raises(HTTPException, match=r"in 2 images; need 0\.03 or fewer") as caught:
            decoded_images(two, 8, replace(LIMITS, max_megapixels=0.03))
        assert caught.value.status_code == 413

    @pytest.mark.parametrize("side", [9_000, 20_000])
    def test_a_bomb_is_too_large_and_a_truncated_file_is_no_image(self, encoded: list[bytes], side: int) -> None:
        bomb = io.BytesIO()
        Image.new("1", (side, side)).save(bomb, "PNG")
        for content, status in ((bomb.getvalue(), 413), (encoded[0][:60], 422), (b"no image", 422)):
            with pytest.raises(HTTPException) as caught:
                decoded_images([content], 8, LIMITS)
            assert caught.value.status_code == status
