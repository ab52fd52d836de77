"""Limits on the head of a request, of bytes and of time, and on the time of a client that does not read its answers:
uvicorn's protocol has none."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 65_536
"""Bytes of a head before its end: what comes with the end, in one read of 256 KB at most, is not counted."""


def limited_connections(max_seconds: float) -> type[HttpToolsProtocol]:
    """The protocol of a server that waits this long for a head: a connection with a head that is too long gets a 400,
    one with a later head, or none after the rest of a refused request, is closed. So is one whose client leaves answers
    unread for this long."""

    class LimitedConnections(HttpToolsProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._length = 0  # of what came since the last head or part of a body; headers may follow a body too
            self._timer = self.loop.call_later(max_seconds, transport.close)
            self._unread: asyncio.TimerHandle | None = None

        def data_received(self, data: bytes) -> None:
            self._length += len(data)
            super().data_received(data)
            if self.transport.is_closing():
                return
            if self._length > MAX_HEAD:
                self.send_400_response(f"got a head of more than {MAX_HEAD} bytes; send fewer or shorter headers")
            elif self._timer.cancelled() and self.cycle.response_complete:
                # uvicorn keeps such a connection until its next head: an empty line, or more of a refused body, came
                self._timer = self.loop.call_later(max_seconds, self.transport.close)

        def on_message_begin(self) -> None:
            self._timer.cancel()
            self._timer = self.loop.call_later(max_seconds, self.transport.close)
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._timer.cancel()
            self._length = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._length = 0
            super().on_body(body)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._unread = self.loop.call_later(max_seconds, self.transport.abort)  # close would wait for the client

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._unread is not None:
                self._unread.cancel()

        def connection_lost(self, exc: Exception | None) -> None:
            self._timer.cancel()
            if self._unread is not None:
                self._unread.cancel()
            super().connection_lost(exc)

    return LimitedConnections
