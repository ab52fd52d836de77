"""For tests of classifiers and their scores."""

import pytest

from proser_core.recognition import bootstrap


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests in which the width of the bootstrap's intervals does not decide."""
    monkeypatch.setattr(bootstrap, "RESAMPLES", 10)
