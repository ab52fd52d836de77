"""The one node of a Ray that a command started for itself. Where it is lost, Ray waits for another one for ever."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import ray

from pipelines.console import interrupt
from proser_core.errors import ClusterError
from proser_core.exit_codes import GOES_ON

LOOK_EVERY_S = 1.0


@contextmanager
def watched_node() -> Iterator[None]:
    """Raises ClusterError in the main thread, wherever that waits for Ray, once no node lives. Does nothing in another
    thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    lost, stop = threading.Event(), threading.Event()

    def watch() -> None:
        with suppress(Exception):  # of a Ray that ends meanwhile
            while not stop.wait(LOOK_EVERY_S):
                if not any(node["Alive"] for node in ray.nodes()):
                    lost.set()
                    interrupt()
                    return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if lost.is_set():
            raise ClusterError(
                f"Ray's process on this machine, the raylet, was killed or lost, perhaps for lack of memory{GOES_ON}"
            ) from error
        raise
    finally:
        stop.set()
        watcher.join()
