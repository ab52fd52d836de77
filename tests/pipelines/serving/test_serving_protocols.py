"""The routes of the server that `proser serve` runs, in this process: protocols, schema, metrics, and who may ask."""

import http.client
import json
import re
import socket
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from openapi_spec_validator import validate
from prometheus_client.parser import text_string_to_metric_families
from ray_nodes import free_ports
from served_models import JSON, as_json, ask, assert_as_predicted, large_image

from pipelines.serving import messages
from pipelines.serving.access import Access, digest_of
from pipelines.serving.head_limits import MAX_HEAD
from pipelines.serving.http import rounded
from pipelines.serving.limits import Limits
from pipelines.serving.local_server import local_server
from pipelines.serving.recogniser import Options
from proser_core.recognition.open_set_classifier import OpenSetClassifier, Predictions

Start = Callable[..., str]
LIMITS = Limits(max_images=16, max_megabytes=0.2, max_megapixels=0.01)


@pytest.fixture(scope="module")
def start(classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a server of the folder of a classifier, with other options where they are given: its address."""
    folder = tmp_path_factory.mktemp("somewhere") / "digits model"
    classifier.save(folder)
    options = Options(str(folder), "", "cpu", LIMITS, 256, 0, Access(("127.0.0.1",)))
    with ExitStack() as stack:

        def start(**changed: Any) -> str:
            (port,) = free_ports(1)
            stack.enter_context(local_server(replace(options, **changed), "127.0.0.1", port))
            return f"http://127.0.0.1:{port}"

        yield start


@pytest.fixture(scope="module")
def address(start: Start) -> str:
    return start()


def get(address: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
    """Status and text."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, named), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def form(files: list[bytes]) -> tuple[bytes, str]:
    """A form as browsers and curl send it, with a field that is no file: body and content type."""
    line = uuid.uuid4().hex
    parts = [b'Content-Disposition: form-data; name="filename"\r\n\r\nhello']
    parts += [
        b'Content-Disposition: form-data; name="image"; filename="1.png"\r\nContent-Type: image/png\r\n\r\n' + file
        for file in files
    ]
    lines = b"".join(b"--" + line.encode() + b"\r\n" + part + b"\r\n" for part in parts)
    return lines + b"--" + line.encode() + b"--\r\n", f'multipart/form-data; boundary="{line}"'


def tensor(files: list[bytes], **more: Any) -> dict[str, Any]:
    """A request of the Open Inference Protocol."""
    data = as_json(files)["images"]
    return {"inputs": [{"name": "image", "datatype": "BYTES", "shape": [len(files)], "data": data}], **more}


class TestForms:
    def test_each_file_of_a_form_gets_its_prediction_as_in_json(self, address: str, encoded: list[bytes]) -> None:
        assert ask(f"{address}/predict", *form(encoded[:3])) == ask(f"{address}/predict", as_json(encoded[:3]))

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


class TestHealth:
    def test_a_server_that_is_full_is_live_and_not_ready(self, start: Start, encoded: list[bytes]) -> None:
        """With one request that waits for the rest of its body."""
        address = start(max_waiting=1)
        half = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
        half.putrequest("POST", "/predict")
        half.putheader("Content-Length", str(len(encoded[0])))
        half.endheaders(encoded[0][:10])
        while get(f"{address}/v2/health/ready")[0] == 200:
            pass
        assert get(f"{address}/v2/health/live") == (200, '{"live":true}')
        status, answer = ask(f"{address}/predict", encoded[1], "image/png")
        assert (status, "--max-waiting" in answer["detail"]) == (503, True)
        half.send(encoded[0][10:])
        assert half.getresponse().status == 200
        assert get(f"{address}/v2/health/ready") == (200, '{"ready":true}')

    def test_a_batch_that_hangs_is_not_live(self, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        address = start()
        monkeypatch.setattr("pipelines.serving.batching.Batcher.check", _hangs)
        assert [get(f"{address}/v2/health/{name}")[0] for name in ("live", "ready")] == [503, 503]

    def test_no_route_gives_away_where_the_model_lies(self, address: str, encoded: list[bytes]) -> None:
        paths = ("/", "/health", "/v2", "/v2/models/digits%20model", "/metrics", "/openapi.json", "/nowhere")
        texts = [get(f"{address}{path}")[1] for path in paths]
        texts.append(json.dumps(ask(f"{address}/predict", encoded[0], "image/png")))
        assert json.loads(texts[0])["model"] == "digits model"
        assert not any("somewhere" in text for text in texts)


def _hangs(batcher: object) -> None:
    raise RuntimeError("hangs")


class TestSchema:
    def test_it_is_openapi_and_declares_every_body_and_answer(self, address: str, encoded: list[bytes]) -> None:
        schema = json.loads(get(f"{address}/openapi.json")[1])
        validate(schema)
        assert set(schema["paths"]["/predict"]["post"]["requestBody"]["content"]) == {
            "application/octet-stream",
            "multipart/form-data",
            "application/json",
        }
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
        assert rounded(predictions) == ([-1e-12, 0.0, 1e-12, 0.333333], [[0.333333] * 3] * 4)


HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"


class TestHeads:
    @pytest.mark.parametrize("begin", [HEAD, HEAD + b"\r\n1\r\nx\r\n0\r\n"], ids=["head", "trailers"])
    def test_headers_that_are_too_long_are_refused_before_their_end(self, address: str, begin: bytes) -> None:
        with connected(address) as client, suppress(ConnectionError):  # by what is sent after it was closed
            client.sendall(begin + b"X-Long: ")
            for _ in range(8):
                client.sendall(b"x" * MAX_HEAD)
            assert b"send fewer or shorter headers" in rest(client)

    @pytest.mark.parametrize(
        "before", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"], ids=["new", "kept alive"]
    )
    def test_a_head_that_does_not_arrive_is_given_up(self, start: Start, before: bytes) -> None:
        with connected(start(limits=replace(LIMITS, max_seconds=0.3))) as client:
            client.sendall(before)
            assert not before or b"200 OK" in client.recv(10_000)
            client.sendall(HEAD)
            rest(client)

    def test_no_number_of_requests_with_bodies_of_any_length_is_too_long_a_head(self, address: str) -> None:
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
        for length in (10, 150_000) * 3:
            for content in (bytes(length), iter([bytes(length // 2)] * 2)):  # the second one in chunks
                connection.request("POST", "/predict", content, {"X-Long": "x" * 30_000})
                answer = connection.getresponse()
                assert (answer.status, b"image 0" in answer.read()) == (422, True)


def connected(address: str) -> socket.socket:
    """A client that waits no longer than this for an end that is due at once."""
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def rest(client: socket.socket) -> bytes:
    """All that comes until the server closes the connection. Raises TimeoutError where it does not."""
    return b"".join(iter(lambda: client.recv(10_000), b""))


class TestMetrics:
    def test_requests_batches_decisions_and_scores_are_counted(
        self, start: Start, classifier: OpenSetClassifier, pixels: np.ndarray, encoded: list[bytes]
    ) -> None:
        address = start()
        ask(f"{address}/predict", as_json(encoded[:16]))
        ask(f"{address}/predict", b"no image", "image/png")
        get(f"{address}/nowhere")
        values = {
            (sample.name, *sorted(f"{k}={v}" for k, v in sample.labels.items() if k != "replica")): sample.value
            for family in text_string_to_metric_families(get(f"{address}/metrics")[1])
            for sample in family.samples
        }
        want = classifier.predict(pixels[:16])
        unknown = int((want.indices == len(classifier.class_names)).sum())
        assert values["proser_requests_total", "route=/predict", "status=200"] == 1
        assert values["proser_requests_total", "route=/predict", "status=422"] == 1
        assert values["proser_requests_total", "route=other", "status=404"] == 1
        assert values["proser_request_seconds_count", "route=/predict"] == 2
        assert (values[("proser_batch_images_count",)], values[("proser_batch_images_sum",)]) == (1, 16)
        assert values["proser_model_version", "model=digits model", "version="] == 1
        assert values["proser_images_total", "decision=unknown", "version="] == unknown
        assert values["proser_images_total", "decision=known", "version="] == 16 - unknown
        assert values["proser_unknown_score_bucket", "le=0.0", "version="] == 16 - unknown
        assert classifier.validation_scores is not None
        known = classifier.validation_scores.is_known.sum()
        assert values["proser_validation_unknown_score_count", "version="] == known

    def test_a_client_that_leaves_before_its_body_is_sent_is_no_fault_of_the_server(
        self, start: Start, caplog: pytest.LogCaptureFixture
    ) -> None:
        address = start()
        host, _, port = address.removeprefix("http://").partition(":")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(f"POST /predict HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100000\r\n\r\nabc".encode())
        while 'route="/predict"' not in (text := get(f"{address}/metrics")[1]):
            pass
        assert re.search(r'proser_requests_total\{.*route="/predict".*status="400".*\} 1', text)
        assert not caplog.records


class TestAccess:
    def test_a_token_is_needed_everywhere_but_for_health(self, start: Start, encoded: list[bytes]) -> None:
        address = start(access=Access((), digest_of("secret")))
        for path in ("/", "/predict", "/metrics", "/docs", "/openapi.json", "/v2", "/v2/models/digits%20model/ready"):
            for authorization in ("", "Bearer wrong", "Bearer ", "Basic secret", "secret"):
                assert get(f"{address}{path}", Authorization=authorization)[0] == 401, (path, authorization)
            assert get(f"{address}{path}", Authorization="bearer secret")[0] in (200, 405)
        assert {get(f"{address}{path}")[0] for path in ("/health", "/v2/health/live", "/v2/health/ready")} == {200}
        schema = json.loads(get(f"{address}/openapi.json", Authorization="Bearer secret")[1])
        validate(schema)
        assert schema["security"] == [{"token": []}]
        assert schema["paths"]["/health"]["get"]["security"] == []

    def test_a_foreign_page_is_refused_before_its_body_is_read(self, address: str) -> None:
        assert get(f"{address}/predict", b"x", Origin="http://evil.com", Content_Type="text/plain")[0] == 403
        assert get(f"{address}/", Host="evil.com")[0] == 403

    @pytest.mark.parametrize(
        ("origin", "statuses"),
        [("https://app.org", [200, 200, 401]), ("https://evil.com", [400, 403, 403]), ("null", [400, 403, 403])],
    )
    def test_a_browser_gives_answers_to_pages_of_allowed_hosts_alone(
        self, start: Start, encoded: list[bytes], origin: str, statuses: list[int]
    ) -> None:
        address = start(access=Access(("127.0.0.1", "app.org"), digest_of("secret")))
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
        asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
        for status, method, headers in zip(
            statuses, ("OPTIONS", "POST", "POST"), (asks, {"Authorization": "Bearer secret"}, {}), strict=True
        ):
            body = encoded[0] if method == "POST" else None
            connection.request(method, "/predict", body, {"Origin": origin, "Content-Type": "image/png", **headers})
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
            assert answer.headers["Access-Control-Allow-Origin"] == (origin if origin == "https://app.org" else None)
            assert "Access-Control-Allow-Credentials" not in answer.headers
            if status == 200 and method == "OPTIONS":
                assert {"Authorization", "Content-Type"} <= {
                    *answer.headers["Access-Control-Allow-Headers"].split(", ")
                }
