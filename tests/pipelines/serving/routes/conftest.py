"""Servers of a classifier in this process, for the tests of their routes."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from ray_nodes import free_ports
from served_models import LIMITS, Start

from pipelines.serving.access import Access
from pipelines.serving.local_server import local_server
from pipelines.serving.recogniser import Options
from proser_core.recognition.open_set_classifier import OpenSetClassifier


@pytest.fixture(scope="module")
def start(classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a server of the folder of a classifier, with other options where they are given: its address."""
    folder = tmp_path_factory.mktemp("somewhere") / "digits model"
    classifier.save(folder)
    options = Options(str(folder), "", "cpu", LIMITS, 256, 0, Access(("127.0.0.1",)))
    with ExitStack() as stack:

        def start(**changed: Any) -> str:
            (port,) = free_ports(1)
            stack.enter_context(local_server(replace(options, **changed), "127.0.0.1", port))
            return f"http://127.0.0.1:{port}"

        yield start


@pytest.fixture(scope="module")
def address(start: Start) -> str:
    return start()
