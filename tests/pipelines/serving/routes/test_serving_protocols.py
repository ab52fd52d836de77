"""What the routes of `proser serve` take and answer: forms, the Open Inference Protocol, schema and numbers."""

import json
import re
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest
from openapi_spec_validator import validate
from served_models import JSON, as_json, ask, assert_as_predicted, get, large_image, tensor

from pipelines.serving import messages
from pipelines.serving.prediction_rows import rounded
from proser_core.recognition.open_set_classifier import OpenSetClassifier, Predictions


def form(files: list[bytes]) -> tuple[bytes, str]:
    """A form as browsers and curl send it, with a field that is not a file: body and content type."""
    line = uuid.uuid4().hex
    parts = [b'Content-Disposition: form-data; name="filename"\r\n\r\nhello']
    parts += [
        b'Content-Disposition: form-data; name="image"; filename="1.png"\r\nContent-Type: image/png\r\n\r\n' + file
        for file in files
    ]
    lines = b"".join(b"--" + line.encode() + b"\r\n" + part + b"\r\n" for part in parts)
    return lines + b"--" + line.encode() + b"--\r\n", f'multipart/form-data; boundary="{line}"'


class TestForms:
    def test_each_file_of_a_form_gets_its_prediction_as_in_json(self, address: str, encoded: list[bytes]) -> None:
        assert ask(f"{address}/predict", *form(encoded[:3])) == ask(f"{address}/predict", as_json(encoded[:3]))

    def test_an_input_that_was_left_empty_is_no_image(self, address: str, encoded: list[bytes]) -> None:
        whole, kind = form(encoded[:1])
        line = whole[: whole.index(b"\r\n") + 2]
        empty = b'Content-Disposition: form-data; name="more"; filename=""\r\n'
        empty += b"Content-Type: application/octet-stream\r\n\r\n\r\n"
        assert ask(f"{address}/predict", line + empty + whole, kind) == ask(f"{address}/predict", whole, kind)

    def test_forms_that_cannot_be_read_are_refused(self, address: str, encoded: list[bytes]) -> None:
        whole, kind = form(encoded[:1])
        for status, body, content_type, reason in (
            (400, whole[:-10], kind, "does not end with its boundary"),
            (400, whole, "multipart/form-data", "does not end with its boundary"),
            (400, form([])[0], "", "without a file"),
            (413, form(encoded[:17])[0], "", "need 16 or fewer"),
            (422, form([b"no image"])[0], "", "image 0: the image cannot be decoded"),
            (415, whole, kind.replace("form-data", "mixed"), "got multipart/mixed"),
        ):
            boundary = content_type or f"multipart/form-data; boundary={body[2:34].decode()}"
            got, answer = ask(f"{address}/predict", body, boundary)
            assert (got, reason in answer["detail"]) == (status, True), answer


@dataclass(frozen=True)
class Outputs:
    """Of an answer of the Open Inference Protocol."""

    answer: dict[str, Any]

    def array(self, name: str) -> np.ndarray:
        (output,) = [each for each in self.answer["outputs"] if each["name"] == name]
        return np.array(output["data"]).reshape(output["shape"])


@pytest.mark.parametrize(
    ("path", "status", "field", "need"),
    [
        ("/predict", 405, "detail", "need POST with an image. All routes: /docs"),
        ("/predictions", 404, "detail", "need another path. All routes: /docs"),
        ("/v2/models/digits%20model/infer", 405, "error", "need POST with an image. All routes: /docs"),
    ],
)
def test_a_method_or_a_path_that_is_not_there_is_told_what_is(
    address: str, path: str, status: int, field: str, need: str
) -> None:
    got, answer = get(f"{address}{path}")
    assert (got, json.loads(answer)) == (status, {field: f"got GET {unquote(path)}; {need}"})


class TestOpenInferenceProtocol:
    def test_images_get_the_librarys_answer(
        self, address: str, classifier: OpenSetClassifier, pixels: np.ndarray, encoded: list[bytes]
    ) -> None:
        status, answer = ask(f"{address}/v2/models/digits%20model/infer", tensor(encoded[:16], id="7"))
        assert (status, answer["model_name"], answer["id"]) == (200, "digits model", "7")
        outputs = Outputs(answer)
        names = [*classifier.class_names, "unknown"]
        probabilities = outputs.array("probabilities")
        table = pd.DataFrame({name: outputs.array(name) for name in ("label", "unknown", "unknown_score")})
        for column, name in enumerate(names):
            table[f"p_{name}"] = probabilities[:, column]
        assert_as_predicted(table, classifier, pixels[:16])

    def test_only_the_outputs_that_are_asked_for_are_sent(self, address: str, encoded: list[bytes]) -> None:
        _, answer = ask(f"{address}/v2/models/digits%20model/infer", tensor(encoded[:2], outputs=[{"name": "unknown"}]))
        assert [(each["name"], each["datatype"], each["shape"]) for each in answer["outputs"]] == [
            ("unknown", "BOOL", [2])
        ]

    def test_metadata_declare_what_the_answers_are(
        self, address: str, encoded: list[bytes], classifier: OpenSetClassifier
    ) -> None:
        declared = json.loads(get(f"{address}/v2/models/digits%20model")[1])
        _, answer = ask(f"{address}/v2/models/digits%20model/infer", tensor(encoded[:3]))
        got = [{**each, "shape": [-1, *each["shape"][1:]]} for each in answer["outputs"]]
        for each in got:
            del each["data"]
        assert got == declared["outputs"]
        assert declared["inputs"] == [{"name": "image", "datatype": "BYTES", "shape": [-1]}]
        assert json.loads(get(f"{address}/v2")[1])["name"] == "proser"

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            ({"inputs": []}, "inputs: List should have at least 1 item"),
            ({"outputs": [{"name": "logits"}]}, "outputs.0.name"),
            ({"inputs": [{"name": "image", "datatype": "FP32", "shape": [1], "data": ["eA=="]}]}, "inputs.0.datatype"),
            ({"inputs": [{"name": "image", "datatype": "BYTES", "shape": [3], "data": ["eA=="]}]}, "got [3] for 1"),
            ({"inputs": [{"name": "image", "datatype": "BYTES", "shape": [1], "data": ["?"]}]}, "not base64"),
        ],
    )
    def test_requests_that_are_not_as_they_must_be_say_why(
        self, address: str, encoded: list[bytes], changed: dict[str, Any], reason: str
    ) -> None:
        status, answer = ask(f"{address}/v2/models/digits%20model/infer", {**tensor(encoded[:1]), **changed})
        assert (status, reason in answer["error"]) == (400, True), answer

    def test_limits_are_those_of_predict(self, address: str, encoded: list[bytes]) -> None:
        for status, files in ((413, encoded[:17]), (413, [large_image()]), (422, [b"no image"])):
            got, answer = ask(f"{address}/v2/models/digits%20model/infer", tensor(files))
            assert (got, list(answer)) == (status, ["error"])

    def test_other_models_and_versions_are_not_there(self, address: str, encoded: list[bytes]) -> None:
        for path in ("other", "other/ready", "digits%20model/versions/2", "digits%20model/versions/2/ready"):
            assert get(f"{address}/v2/models/{path}")[0] == 404
        assert ask(f"{address}/v2/models/other/infer", tensor(encoded[:1]))[0] == 404
        assert get(f"{address}/v2/models/digits%20model/ready") == (200, '{"ready":true}')


class TestSchema:
    def test_it_is_openapi_and_declares_every_body_and_answer(self, address: str, encoded: list[bytes]) -> None:
        schema = json.loads(get(f"{address}/openapi.json")[1])
        validate(schema)
        assert set(schema["paths"]["/predict"]["post"]["requestBody"]["content"]) == {
            "application/octet-stream",
            "multipart/form-data",
            "application/json",
        }
        for path in ("/health", "/v2/health/live", "/v2/health/ready"):
            assert schema["paths"][path]["get"]["responses"].keys() == {"200", "503"}
        for path, model, text in (
            ("/", messages.About, get(f"{address}/")[1]),
            ("/health", messages.Health, get(f"{address}/health")[1]),
            ("/predict", messages.Predictions, json.dumps(ask(f"{address}/predict", as_json(encoded[:2]))[1])),
            (
                "/v2/models/{name}/infer",
                messages.InferenceResponse,
                json.dumps(ask(f"{address}/v2/models/digits%20model/infer", tensor(encoded[:2]))[1]),
            ),
        ):
            (operation,) = schema["paths"][path].values()
            content = operation["responses"]["200"]["content"][JSON]["schema"]
            assert content == {"$ref": f"#/components/schemas/{model.__name__}"}
            assert model.model_validate_json(text).model_dump(exclude_none=True) == json.loads(text)

    def test_its_page_needs_no_other_server(self, address: str) -> None:
        status, page = get(f"{address}/docs")
        used = re.findall(r'(?:src|href)="([^"]+)"', page)
        assert (status, len(used)) == (200, 3)
        assert not any(each.startswith(("http", "//")) for each in used)
        assert {get(f"{address}{each}")[0] for each in used if not each.endswith("png")} == {200}


class TestNumbers:
    def test_rounding_keeps_decision_and_order(
        self, address: str, classifier: OpenSetClassifier, pixels: np.ndarray, encoded: list[bytes]
    ) -> None:
        _, answer = ask(f"{address}/predict", as_json(encoded[:16]))
        for row, exact in zip(answer["predictions"], classifier.predict(pixels[:16]).probabilities, strict=True):
            assert row["unknown"] == (row["unknown_score"] > 0)
            given = np.array(list(row["probabilities"].values()))
            assert (given.round(6) == given).all()
            assert given.argmax() == exact.argmax()
            assert float(f"{row['unknown_score']:.6g}") == row["unknown_score"]

    def test_a_score_next_to_the_threshold_keeps_its_sign(self) -> None:
        scores, known = np.array([-1e-12, 0.0, 1e-12, 1 / 3]), np.zeros(4, np.int64)
        predictions = Predictions(["a"] * 4, known, scores, np.full((4, 3), 1 / 3), known)
        found = rounded(predictions)
        assert found.unknown_scores.tolist() == [-1e-12, 0.0, 1e-12, 0.333333]
        assert found.probabilities.tolist() == [[0.333333] * 3] * 4
