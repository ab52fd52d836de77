"""One run at a time in a storage: two would write over each other's checkpoints."""

import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proser_core.errors import ConfigError

LOCK = ".lock"


@contextmanager
def alone_in(storage: Path, work: str) -> Iterator[None]:
    """Hold the storage's lock, which the system gives back however the process ends.

    `work` says who holds it to whoever comes second. Raises ConfigError where another run works there. The
    file system must have POSIX locks over all machines that start runs, as NFS 4, EFS and Lustre have.
    """
    path = storage / LOCK
    with path.open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "a run that does not name itself"
            raise ConfigError(
                f"another run works in {storage}: {holder}; wait for it, or give another folder"
            ) from None
        lock.truncate(0)
        lock.write(f"{work}, process {os.getpid()} on {socket.gethostname()}, since {time.strftime('%F %T')}\n")
        lock.flush()
        yield
        lock.truncate(0)
