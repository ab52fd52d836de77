"""Servers of a model, in this process or as others; what they are asked, and what they must answer."""

import base64
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from encoded_images import encode
from registered_models import Registry
from waiting import PATIENCE_S

from pipelines.ports import free_ports
from pipelines.serving.access import Access
from pipelines.serving.limits import Limits
from pipelines.serving.local_server import local_server
from pipelines.serving.recogniser import Options
from proser_core.data.readers import digits
from proser_core.recognition.open_set_classifier import OpenSetClassifier

COUNT = 64
JSON = "application/json"
LIMITS = Limits(max_images=16, max_megabytes=0.2, max_megapixels=0.01)
Start = Callable[..., str]
"""Starts a server with other options where they are given: its address."""


@contextmanager
def servers_of(classifier: OpenSetClassifier, folder: Path, limits: Limits = LIMITS) -> Iterator[Start]:
    """Servers in this process of a classifier, which is saved in the folder."""
    classifier.save(folder)
    options = Options(str(folder), "", "cpu", limits, 256, 0, Access(("127.0.0.1",)))
    with ExitStack() as stack:

        def start(**changed: Any) -> str:
            (port,) = free_ports(1)
            stack.enter_context(local_server(replace(options, **changed), "127.0.0.1", port))
            return f"http://127.0.0.1:{port}"

        yield start


def environment_of(classifier: OpenSetClassifier, folder: Path, name: str, patch: pytest.MonkeyPatch) -> dict[str, str]:
    """Register the classifier in a database in `folder`; the environment of a process that finds it."""
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
    Registry(folder, name).add(classifier)
    programs = str(Path(sys.executable).parent)  # where an activated environment has the `uvicorn` that MLflow starts
    return {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


def some_pixels() -> np.ndarray:
    """Real digits, of known and of unknown classes: uint8[COUNT, 8, 8, 3]."""
    return digits.read("test", 8).images[:COUNT]


def ask(address: str, content: Any, kind: str = "application/json") -> tuple[int, Any]:
    """Status and answer of a POST; `content` is bytes, or anything that goes as JSON."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    request = urllib.request.Request(address, body, {"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def get(address: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
    """Status and text."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, body, named), timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def half_sent(address: str, file: bytes) -> HTTPConnection:
    """A client that has sent ten bytes of its image."""
    half = HTTPConnection(address.removeprefix("http://"), timeout=PATIENCE_S)
    half.putrequest("POST", "/predict")
    half.putheader("Content-Length", str(len(file)))
    half.endheaders(file[:10])
    return half


def assert_as_predicted(table: pd.DataFrame, classifier: OpenSetClassifier, pixels: np.ndarray) -> None:
    """The table has the columns and the values of the library, within what another batch changes."""
    want = pd.DataFrame(classifier.predict(pixels).columns(classifier.class_names))
    assert list(table.columns) == list(want.columns)
    sure = np.abs(want["unknown_score"]) > 1e-4
    for name in ("label", "unknown"):
        assert table[name][sure].tolist() == want[name][sure].tolist()
    for name in [name for name in want.columns if name not in ("label", "unknown")]:
        np.testing.assert_allclose(table[name].astype(float), want[name], atol=1e-4)


def as_json(files: list[bytes]) -> dict[str, list[str]]:
    """The body of a request with several images."""
    return {"images": [base64.b64encode(file).decode() for file in files]}


def tensor(files: list[bytes], **more: Any) -> dict[str, Any]:
    """A request of the Open Inference Protocol."""
    data = as_json(files)["images"]
    return {"inputs": [{"name": "image", "datatype": "BYTES", "shape": [len(files)], "data": data}], **more}


def large_image() -> bytes:
    """20,000 pixels, more than the servers of these tests decode."""
    return encode(np.zeros((100, 200), np.uint8))
