"""One run at a time in a storage behind a URI.

The lock is a file that names its holder and is written again every BEAT seconds. Object stores as
pyarrow sees them know no write that fails where a file is there: two runs that begin in the same moment see each
other only after SETTLE seconds, which a store that answers more slowly can defeat.
"""

import json
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pipelines.storage.objects import Objects
from proser_core.errors import ConfigError

LOCK = ".lock.json"
BEAT, STALE, SETTLE = 15.0, 90.0, 1.0
"""Seconds between signs of life, without which a lock is taken over, and until a fresh one counts."""


@contextmanager
def alone_at(objects: Objects, mirror: str, work: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the storage's lock; a run that another one took it from is told and interrupted.

    `mirror` names the mirror that this process has locked: a lock of the same mirror is of a run that has ended.
    Raises ConfigError, with its holder, where another run works there.
    """
    objects = replace(objects, patience=0.0)
    mine = {
        "token": uuid.uuid4().hex,
        "mirror": mirror,
        "holder": f"{work}, process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%F %T')}",
    }
    _take(objects, mine)
    ended = threading.Event()
    beat = threading.Thread(target=_beat, args=(objects, mine, ended, tell), name="lock", daemon=True)
    beat.start()
    try:
        yield
    finally:
        ended.set()
        beat.join()
        if _read(objects).get("token") == mine["token"]:
            objects.delete(LOCK)


def _take(objects: Objects, mine: dict[str, str]) -> None:
    held, stamp = _read(objects), objects.stamp(LOCK)
    if stamp is not None and held.get("mirror") != mine["mirror"]:
        age = (objects.clock() - stamp[1]) / 1e9  # by the store's own clock
        if age < STALE:
            raise _refused(objects, held)
    _write(objects, mine)
    time.sleep(SETTLE)
    held = _read(objects)
    if held.get("token") != mine["token"]:
        raise _refused(objects, held)


def _beat(objects: Objects, mine: dict[str, str], ended: threading.Event, tell: Callable[[str], None]) -> None:
    while not ended.wait(BEAT):
        try:
            held = _read(objects)
            if held.get("token", mine["token"]) == mine["token"]:
                _write(objects, mine)
                continue
        except OSError:  # the next one may come through
            continue
        tell(f"another run has taken over {objects.uri}, after {STALE:.0f} s without a sign of this one: {_name(held)}")
        is_heard = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # in the background of a script it is not
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT if is_heard else signal.SIGTERM)
        return


def _read(objects: Objects) -> dict[str, Any]:
    """What the lock says; empty where there is none, or a damaged one."""
    try:
        held = json.loads(objects.read(LOCK) or b"{}")
    except ValueError:
        return {}
    return held if isinstance(held, dict) else {}


def _write(objects: Objects, mine: dict[str, str]) -> None:
    objects.write(LOCK, json.dumps(mine).encode())


def _name(held: dict[str, Any]) -> str:
    return str(held.get("holder", "a run that does not name itself"))


def _refused(objects: Objects, held: dict[str, Any]) -> ConfigError:
    return ConfigError(
        f"another run works in {objects.uri}: {_name(held)}; wait for it, or give another --storage. One that was "
        f"killed on another machine is taken over {STALE:.0f} s after its last sign of life"
    )
