"""Heads of requests to `proser serve` that are too long or never end."""

import http.client
import socket
import time
from contextlib import suppress
from dataclasses import replace

import pytest
from served_models import LIMITS, Start
from waiting import PATIENCE_S

from pipelines.serving.connection_limits import MAX_HEAD

HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"


class TestHeads:
    @pytest.mark.parametrize("begin", [HEAD, HEAD + b"\r\n1\r\nx\r\n0\r\n"], ids=["head", "trailers"])
    def test_headers_that_are_too_long_are_refused_before_their_end(self, address: str, begin: bytes) -> None:
        with connected(address) as client, suppress(ConnectionError):  # by what is sent after it was closed
            client.sendall(begin + b"X-Long: ")
            for _ in range(8):
                client.sendall(b"x" * MAX_HEAD)
            assert b"send fewer or shorter headers" in rest(client)

    def test_the_longest_head_passes(self, address: str) -> None:
        begin, end = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Long: ", b"\r\n\r\n"
        with connected(address) as client:
            client.sendall(begin + b"x" * (MAX_HEAD - len(begin + end)) + end)
            assert rest(client).startswith(b"HTTP/1.1 200 OK")

    @pytest.mark.parametrize(
        "before", [b"", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"], ids=["new", "kept alive"]
    )
    def test_a_head_that_does_not_arrive_is_given_up(self, start: Start, before: bytes) -> None:
        with connected(start(limits=replace(LIMITS, max_seconds=0.3))) as client:
            client.sendall(before)
            assert not before or b"200 OK" in client.recv(10_000)
            client.sendall(HEAD)
            rest(client)

    @pytest.mark.parametrize(
        ("before", "status", "more"),
        [
            (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200", b"\r\n"),
            (b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999\r\n\r\n", b"413", b"x"),
        ],
        ids=["an empty line", "the body of a refused request"],
    )
    def test_what_begins_no_request_keeps_no_connection(
        self, start: Start, before: bytes, status: bytes, more: bytes
    ) -> None:
        with connected(start(limits=replace(LIMITS, max_seconds=0.3))) as client:
            client.sendall(before)
            assert status in client.recv(10_000)
            client.sendall(more)
            rest(client)

    def test_a_refusal_of_a_body_that_is_not_sent_yet_ends_the_connection_and_says_so(self, address: str) -> None:
        head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: "
        with connected(address) as client:
            client.sendall(head + b"8\r\n\r\n")
            assert client.recv(10_000).startswith(b"HTTP/1.1 100 Continue")
            client.sendall(b"no image" + head + b"999999\r\n\r\n")  # the first answer leaves the connection open
            answers = rest(client)
        assert [part[:3] for part in answers.split(b"HTTP/1.1 ")[1:]] == [b"422", b"413"]
        assert answers.count(b"connection: close") == 1

    def test_a_client_that_reads_no_answers_is_given_up(self, start: Start) -> None:
        address, count = start(limits=replace(LIMITS, max_seconds=0.3)), 30  # more than buffers of the system hold
        head = b"GET /docs/files/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n"

        def read_after(seconds: float) -> int:
            with connected(address) as client:
                client.sendall((head + b"\r\n") * (count - 1) + head + b"Connection: close\r\n\r\n")
                time.sleep(seconds)
                return len(rest(client))

        whole = read_after(0)
        assert any(read_after(seconds) < whole for seconds in (1, 4, 16)), "on a slow machine after a longer time"

    def test_a_websocket_is_answered_as_any_request(self, address: str) -> None:
        with connected(address) as client:
            client.sendall(
                b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
            )
            assert client.recv(10_000).startswith(b"HTTP/1.1 200 OK")

    def test_no_number_of_requests_with_bodies_of_any_length_is_too_long_a_head(self, address: str) -> None:
        connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=PATIENCE_S)
        for length in (10, 150_000) * 3:
            for content in (bytes(length), iter([bytes(length // 2)] * 2)):  # the second one in chunks
                connection.request("POST", "/predict", content, {"X-Long": "x" * 30_000})
                answer = connection.getresponse()
                assert (answer.status, b"image 0" in answer.read()) == (422, True)


def connected(address: str) -> socket.socket:
    """A client that waits no longer than this for an end that is due at once."""
    host, _, port = address.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=PATIENCE_S)


def rest(client: socket.socket) -> bytes:
    """All that comes until the server closes the connection. Raises TimeoutError where it does not."""
    return b"".join(iter(lambda: client.recv(10_000), b""))
