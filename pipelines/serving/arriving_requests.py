"""A request as it arrives: its body, read within limits, what it holds together with others, and whether its client
still waits for the answer.

Errors are HTTPExceptions: 408 a body that does not arrive, 413 one that is too large, 499 a client that left, 503 too
many requests at a time.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from fastapi import HTTPException, Request
from starlette.requests import ClientDisconnect

from pipelines.serving.limits import MEGABYTE, Limits

Answer = TypeVar("Answer")
RETRY_AFTER_S = "1"
CLIENT_LEFT = 499  # nginx's, in its log
MAX_HELD_BYTES = 512 * MEGABYTE
"""32 of the largest bodies that are let in by default; all that may wait (`--max-waiting`) would hold 4 GB."""


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


def _too_long(length: int, limits: Limits) -> HTTPException:
    return HTTPException(
        413,
        f"got a body of {length / MEGABYTE:.1f} MB or more; need {limits.max_megabytes:g} MB or less per request. "
        "Send fewer or smaller images",
    )


class Memory:
    """Counts the bytes that requests hold together: their bodies, and their images once they are decoded. A request by
    itself may hold any number: its own limits are others."""

    def __init__(self) -> None:
        self._held = 0

    def has_room(self, count: int) -> bool:
        """Whether a further request may hold so many bytes."""
        return not self._held or self._held + count <= MAX_HELD_BYTES

    @contextmanager
    def of_request(self) -> Iterator[Callable[[int], None]]:
        """A function that counts further bytes of one request until the block ends. It raises HTTPException 503 where
        other requests hold too many."""
        own = 0

        def hold(count: int) -> None:
            nonlocal own
            if own < self._held and self._held + count > MAX_HELD_BYTES:
                raise busy(f"got more than {MAX_HELD_BYTES // MEGABYTE} MB of requests at a time")
            own += count
            self._held += count

        try:
            yield hold
        finally:
            self._held -= own


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
    """Whether the client has left; where `receive` failed, as that of Ray Serve may, nothing is known of it: False."""
    return leaving.done() and not leaving.cancelled() and leaving.exception() is None


def busy(reason: str) -> HTTPException:
    """The refusal of a request that another moment can take."""
    return HTTPException(503, f"{reason}; send this one again later", {"Retry-After": RETRY_AFTER_S})
