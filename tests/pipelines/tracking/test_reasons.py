"""What a command says of a tracking server that cannot be used: what is wrong with it, and what to do."""

import socket
from collections.abc import Iterator

import pytest
from http_servers import server_answering

from pipelines.ports import free_ports
from pipelines.tracking.server import connect
from proser_core.errors import TrackingError

ACCESS = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
ANSWERS = {
    401: ("answers HTTP status 401 (Unauthorized)", ACCESS),
    403: ("answers HTTP status 403 (Forbidden)", ACCESS),
    404: ("answers HTTP status 404 (Not Found), as no MLflow server does", "correct MLFLOW_TRACKING_URI"),
    200: ("answers something else than JSON, as no MLflow server does", "correct MLFLOW_TRACKING_URI"),
    503: ("does not answer (too many 503 error responses)", "start it"),
}

IN_MEMORY = ("sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite+pysqlite:///file::memory:?uri=true")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")


@pytest.fixture
def silent() -> Iterator[str]:
    """Address of a server that takes requests and never answers, as one that is stopped."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def said_of(uri: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(TrackingError) as raised:
        connect()
    return str(raised.value)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("127.0.0.1:15000", "127.0.0.1:15000"),
        ("http//127.0.0.1:15000", "http//127.0.0.1:15000"),
        ("http://", "http://"),
        ("htp://127.0.0.1:15000", "htp://127.0.0.1:15000"),
        ("/some/folder", "/some/folder"),
        ("file:///some/folder", "file:///some/folder"),
        ("sqlite:mlflow.db", "sqlite:mlflow.db"),
        ("sqlite://mlflow.db", "sqlite://mlflow.db"),
        *((uri, uri) for uri in IN_MEMORY),
        ("http:/me:pass@word@host", "...@host"),
    ],
)
def test_what_is_no_server_and_no_database_that_stays_is_refused_as_such(
    uri: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = said_of(uri, monkeypatch)
    assert said.startswith(f"MLFLOW_TRACKING_URI is {shown!r}; need a server such as http://HOST:5000, or a database")


@pytest.mark.parametrize("status", ANSWERS)
def test_the_status_of_an_answer_is_told_as_such(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with server_answering((status, "<html>what is this</html>")) as address:
        said = said_of(address, monkeypatch)
    assert said.startswith(f"the tracking server {address} ")
    assert [part for part in ANSWERS[status] if part not in said] == []


def test_a_server_that_is_stopped_is_not_to_be_started(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = said_of(silent, monkeypatch)
    assert "does not answer (nothing came within 1 s); wait, restart it, correct MLFLOW_TRACKING_URI, or " in said


def test_where_no_answer_came_the_cause_is_told_and_no_address_that_was_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"
    with server_answering(None) as hangs_up:
        reasons = {
            nobody: "Connection refused",
            "http://nosuch.invalid": "Name or service not known",
            hangs_up: "Remote end closed connection without response",
            hangs_up.replace("http", "https"): "[SSL: ",
        }
        for uri, reason in reasons.items():
            said = said_of(uri, monkeypatch)
            assert said.startswith(f"the tracking server {uri} does not answer ({reason}")
            assert "; start it, correct MLFLOW_TRACKING_URI, or unset it to track in ./mlflow.db" in said


def test_an_error_that_was_being_handled_is_no_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        raise KeyError("handled")
    except KeyError:
        assert "(Connection refused)" in said_of(f"http://127.0.0.1:{free_ports(1)[0]}", monkeypatch)
