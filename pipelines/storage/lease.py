"""The lock of a storage behind a URI: one run at a time.

It is a file that names its holder and is written again every HEARTBEAT_S seconds. Object stores as pyarrow sees them
have no write that fails where a file exists: two runs that begin in the same moment see each other only after SETTLE_S
seconds, which a store that answers more slowly can defeat.
"""

import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from pipelines.console import interrupt
from pipelines.storage.objects import Objects, storage_errors
from proser_core.errors import ConfigError

LOCK, UNNAMED = ".lock.json", "an unnamed run"
HEARTBEAT_S, EXPIRES_AFTER_S, SETTLE_S = 15.0, 90.0, 1.0
"""Seconds between heartbeats, from the last one until another run takes over, and until a new lock counts."""


@contextmanager
def hold_lease(objects: Objects, owner: str, work: str, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the storage's lock; where another run takes it over, `say` so and interrupt this one.

    `owner` identifies the machine's mirror that this process has locked: a lock of it is of a run that has ended.
    Raises ConfigError, with its holder, where another run works there, StorageError where the storage does not answer.
    """
    mine = {
        "token": uuid.uuid4().hex,
        "mirror": owner,
        "holder": f"{work}, process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%F %T')}",
    }
    with storage_errors(objects):
        _acquire(objects, mine)
    objects = replace(objects, retry_for_s=0.0)  # the next heartbeat may come through
    ended = threading.Event()
    heartbeat = threading.Thread(target=_renew, args=(objects, mine, ended, say), name="lock", daemon=True)
    heartbeat.start()
    try:
        yield
    finally:
        ended.set()
        heartbeat.join()
        with suppress(OSError):  # of a storage that is away: the lock expires, and what was raised above is what counts
            if _read(objects).get("token") == mine["token"]:
                objects.delete(LOCK)


def _acquire(objects: Objects, mine: dict[str, str]) -> None:
    held, stamp = _read(objects), objects.stamp(LOCK)
    if stamp is not None and held.get("mirror") != mine["mirror"]:
        age_s = (objects.server_time_ns() - stamp[1]) / 1e9
        if age_s < EXPIRES_AFTER_S:
            raise _held_error(objects, held)
    objects.write(LOCK, json.dumps(mine).encode())
    time.sleep(SETTLE_S)
    held = _read(objects)
    if held.get("token") != mine["token"]:
        raise _held_error(objects, held)


def _renew(objects: Objects, mine: dict[str, str], ended: threading.Event, say: Callable[[str], None]) -> None:
    while not ended.wait(HEARTBEAT_S):
        try:
            held = _read(objects)
            if held.get("token", mine["token"]) == mine["token"]:
                objects.write(LOCK, json.dumps(mine).encode())
                continue
        except OSError:
            continue
        with suppress(OSError, ValueError):  # of a terminal that is gone
            say(
                f"another run has taken over {objects.uri}, {EXPIRES_AFTER_S:.0f} s after this one's last heartbeat: "
                f"{held.get('holder', UNNAMED)}"
            )
        interrupt()
        return


def _read(objects: Objects) -> dict[str, Any]:
    """The lock's content; empty where there is none, or a damaged one."""
    try:
        held = json.loads(objects.read(LOCK) or b"{}")
    except ValueError:
        return {}
    return held if isinstance(held, dict) else {}


def _held_error(objects: Objects, held: dict[str, Any]) -> ConfigError:
    return ConfigError(
        f"another run works in {objects.uri}: {held.get('holder', UNNAMED)}; wait for it, or give another --storage. "
        f"The lock of a run that was killed on another machine expires {EXPIRES_AFTER_S:.0f} s after its last heartbeat"
    )
