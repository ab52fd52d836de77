"""Storages behind URIs for tests: a folder, and a bucket of an S3 server in this process."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from pipelines.storage.mirror import MIRROR_VARIABLE, STORE, Mirror, mirror_folder
from pipelines.storage.objects import Objects, open_objects

BUCKET = "bucket"
TASK = "prepare/task"
"""Where a task stands on a storage."""
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@contextmanager
def s3_server(port: int = 0, before: Callable[[Any], Any] = lambda application: application) -> Iterator[str]:
    """An S3 server with one bucket, on a free port unless one is given; the query that leads to it. `before` is given
    its WSGI application, and returns the one that answers."""
    from moto.server import ThreadedMotoServer  # a second that few tests need

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # a line per request
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        server._server.app = before(server._server.app)
        urlopen(Request(f"http://{host}:{port}/{BUCKET}", method="PUT")).close()
        yield f"scheme=http&endpoint_override={host}:{port}"
    finally:
        server.stop()


@dataclass(frozen=True)
class Machines:
    """Machines that share nothing but a storage: each has a folder of its own for its mirrors."""

    uri: str
    root: Path
    patch: pytest.MonkeyPatch

    @property
    def objects(self) -> Objects:
        return open_objects(self.uri)

    def on(self, name: str) -> None:
        """From now on, this process is on that machine."""
        self.patch.setenv(MIRROR_VARIABLE, str(self.root / name))

    def mirror(self, name: str) -> Mirror:
        """A driver on that machine."""
        self.on(name)
        return Mirror(mirror_folder(self.uri) / STORE, objects=self.objects)
