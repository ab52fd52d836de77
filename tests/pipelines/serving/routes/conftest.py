"""Servers of a classifier in this process, for the tests of their routes."""

from collections.abc import Iterator

import pytest
from served_models import Start, servers_of

from proser_core.recognition.open_set_classifier import OpenSetClassifier


@pytest.fixture(scope="module")
def start(classifier: OpenSetClassifier, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    with servers_of(classifier, tmp_path_factory.mktemp("somewhere") / "digits model") as start:
        yield start


@pytest.fixture(scope="module")
def address(start: Start) -> str:
    return start()
