"""Who may ask which route of `proser serve`: tokens, foreign pages and browsers; and what no route gives away."""

import http.client
import json

import pytest
import torch
from openapi_spec_validator import validate
from served_models import Start, ask, get

from pipelines.serving.access import Access, token_digest
from proser_core.recognition.open_set_classifier import OpenSetClassifier


def test_a_token_is_needed_everywhere_but_for_health(start: Start, encoded: list[bytes]) -> None:
    address = start(access=Access((), token_digest("secret")))
    for path in ("/", "/predict", "/metrics", "/docs", "/openapi.json", "/v2", "/v2/models/digits%20model/ready"):
        for authorization in ("", "Bearer wrong", "Bearer ", "Basic secret", "secret"):
            assert get(f"{address}{path}", Authorization=authorization)[0] == 401, (path, authorization)
        assert get(f"{address}{path}", Authorization="bearer secret")[0] in (200, 405)
    assert {get(f"{address}{path}")[0] for path in ("/health", "/v2/health/live", "/v2/health/ready")} == {200}
    schema = json.loads(get(f"{address}/openapi.json", Authorization="Bearer secret")[1])
    validate(schema)
    assert schema["security"] == [{"token": []}]
    assert schema["paths"]["/health"]["get"]["security"] == []


def test_a_foreign_page_is_refused_before_its_body_is_read(address: str) -> None:
    assert get(f"{address}/predict", b"x", Origin="http://evil.com", Content_Type="text/plain")[0] == 403
    assert get(f"{address}/", Host="evil.com")[0] == 403


@pytest.mark.parametrize(
    ("origin", "statuses"),
    [("https://app.org", [200, 200, 401]), ("https://evil.com", [400, 403, 403]), ("null", [400, 403, 403])],
)
def test_a_browser_gives_answers_to_pages_of_allowed_hosts_alone(
    start: Start, encoded: list[bytes], origin: str, statuses: list[int]
) -> None:
    address = start(access=Access(("127.0.0.1", "app.org"), token_digest("secret")))
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
            assert {"Authorization", "Content-Type"} <= {*answer.headers["Access-Control-Allow-Headers"].split(", ")}


def test_a_browser_gives_a_failure_of_the_server_to_pages_of_allowed_hosts_too(
    start: Start, encoded: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise torch.AcceleratorError("CUDA error: device-side assert triggered")

    address = start(access=Access(("127.0.0.1", "app.org")))
    monkeypatch.setattr(OpenSetClassifier, "predict", fails)
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=60)
    connection.request("POST", "/predict", encoded[0], {"Origin": "https://app.org", "Content-Type": "image/png"})
    answer = connection.getresponse()
    assert (answer.status, list(json.load(answer))) == (500, ["detail"])
    assert answer.headers["Access-Control-Allow-Origin"] == "https://app.org"


def test_no_route_gives_away_where_the_model_lies(address: str, encoded: list[bytes]) -> None:
    paths = ("/", "/health", "/v2", "/v2/models/digits%20model", "/metrics", "/openapi.json", "/nowhere")
    texts = [get(f"{address}{path}")[1] for path in paths]
    texts.append(json.dumps(ask(f"{address}/predict", encoded[0], "image/png")))
    assert json.loads(texts[0])["model"] == "digits model"
    assert not any("somewhere" in text for text in texts)
