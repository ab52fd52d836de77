"""The application in this process, under uvicorn."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn

from pipelines.console import warn
from pipelines.serving.application import application
from pipelines.serving.connection_limits import limited_connections
from pipelines.serving.recogniser import Options, Recogniser
from proser_core.errors import ConfigError

BACKLOG = 2048
STOP_MARGIN_S = 5.0  # in which uvicorn ends the requests that have not ended in time


@contextmanager
def local_server(options: Options, host: str, port: int) -> Iterator[Callable[[float], dict[str, str]]]:
    """Run a server in a thread, and yield a function that returns its state, as `Recogniser.state` does. At the end of
    the block requests that have begun are answered; where one hangs, the process ends with exit code 1. Raises
    ConfigError for a port that is taken meanwhile."""
    recogniser = Recogniser(options)
    config = uvicorn.Config(
        application(recogniser),
        http=limited_connections(options.limits.max_seconds),
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",  # else a handshake is cut off, past the token
        server_header=False,
        timeout_graceful_shutdown=round(options.longest_request),
    )
    server = uvicorn.Server(config)
    try:
        listener = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=BACKLOG
        )
    except OSError as error:
        raise ConfigError(f"port {port} of {host} is not available ({error.strerror}); give a free one") from error
    thread = threading.Thread(target=server.run, args=([listener],), name="server")
    thread.start()

    def state(seconds: float) -> dict[str, str]:
        if not thread.is_alive():
            raise RuntimeError("the server has ended")
        return recogniser.state()

    def finish() -> None:
        thread.join()
        recogniser.close()
        recogniser.finish()

    try:
        yield state
    finally:
        server.should_exit = True
        ending = threading.Thread(target=finish, name="ending", daemon=True)
        ending.start()
        ending.join(options.longest_request + STOP_MARGIN_S)
        if ending.is_alive():
            warn("a batch or the decoding of a request hangs; the server ends without its answer")
            os._exit(1)  # the interpreter would wait for the threads of that work
