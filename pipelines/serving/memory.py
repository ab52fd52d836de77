"""Bytes that the requests of a process hold together: their bodies, and their images once they are decoded."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipelines.serving.arriving_requests import busy
from pipelines.serving.limits import MEGABYTE

MAX_HELD_BYTES = 512 * MEGABYTE
"""32 of the largest bodies that are let in by default; all that may wait (`--max-waiting`) would hold 4 GB."""


class Memory:
    """Counts what is held. A request by itself may hold any number of bytes: its own limits are others."""

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
