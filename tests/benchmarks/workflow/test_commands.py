"""Commands as processes of their own: they import this project, and the user's tracking server stays."""

import os
from pathlib import Path
from types import ModuleType

import pytest

import benchmarks
from benchmarks.harness.settings import Settings
from benchmarks.workflow import cached, serving
from benchmarks.workflow.commands import Cost, child_environment

URI = "MLFLOW_TRACKING_URI"


@pytest.mark.parametrize(("module", "starts"), [(cached, "cost_of"), (serving, "_register")])
@pytest.mark.parametrize("before", ["sqlite:///mine.db", None])
def test_the_users_tracking_server_stays_when_a_benchmark_fails(
    monkeypatch: pytest.MonkeyPatch, before: str | None, module: ModuleType, starts: str
) -> None:
    if before is None:
        monkeypatch.delenv(URI, raising=False)
    else:
        monkeypatch.setenv(URI, before)
    asked: list[str | None] = []

    def fail(*_: object, **environment: str) -> Cost:
        asked.append(environment.get(URI, os.environ.get(URI)))
        raise RuntimeError("failed")

    monkeypatch.setattr(module, starts, fail)
    with pytest.raises(RuntimeError, match="failed"):
        module.run(Settings(quick=True))
    assert os.environ.get(URI) == before
    assert all(uri and uri.endswith("/mlflow.db") and uri != before for uri in asked)


def test_a_process_of_its_own_imports_this_project() -> None:
    made = child_environment(NAME="value")
    assert made["NAME"] == "value"
    assert made["PYTHONPATH"].split(os.pathsep)[0] == str(Path(benchmarks.__file__).parents[1])
    assert "NAME" not in os.environ
