"""What benchmarks are made of: that they leave the process as it was, wait for a GPU, and never for a dead process."""

import multiprocessing
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import cached, convolutions, cuda, serving, streaming, timing
from benchmarks.commands import Cost, child_environment
from benchmarks.settings import Settings
from benchmarks.timing import on_threads

ROOT = Path(timing.__file__).parents[1]
URI = "MLFLOW_TRACKING_URI"
QUICK = Settings(quick=True)


def test_as_many_threads_as_before_are_there_after_a_benchmark_even_one_that_fails() -> None:
    before, seen = torch.get_num_threads(), []

    @on_threads(before + 1)
    def failing() -> None:
        seen.append(torch.get_num_threads())
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        failing()
    assert seen == [before + 1]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("name", ["step", "epoch", "peak", "augmentation", "growth", "compiling", "stacking"])
def test_no_benchmark_sets_threads_by_itself(name: str) -> None:
    source = (ROOT / "benchmarks" / f"{name}.py").read_text()
    assert "set_num_threads" not in source
    assert "on_threads(" in source


def test_a_convolution_is_timed_until_the_gpu_has_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []
    monkeypatch.setattr(timing, "_wait_for_gpu", lambda: waits.append(1))
    convolution = convolutions.Convolution(convolutions.shapes(QUICK)[0], 2, torch.device("cpu"))
    assert convolutions.best_seconds(convolution, QUICK) > 0
    assert len(waits) >= 2


def test_targets_of_a_gpu_are_of_each_round_and_not_measured_without_one() -> None:
    samples = {cuda.GRAPHED: [1.0, 2.0, 1.0], cuda.OURS: [4.0, 4.0, 4.0], cuda.RELEASED: [7.0, 7.0, 7.0]}
    found = cuda.targets({"bf16": samples})
    assert [target.measured for target in found] == [4.0, 7.0, None, None]
    assert [target.verdict for target in found] == ["met", "missed", "not measured", "not measured"]
    against_eager = cuda.comparisons("bf16", 128, samples, "note")[1]
    assert against_eager.rows[0][4] == 4.0


@pytest.mark.parametrize("before", ["sqlite:///mine.db", None])
def test_the_users_tracking_server_stays_when_a_benchmark_fails(
    monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    if before is None:
        monkeypatch.delenv(URI, raising=False)
    else:
        monkeypatch.setenv(URI, before)
    asked: list[str | None] = []

    def fail(*_: object, **environment: str) -> Cost:
        asked.append(environment.get(URI, os.environ.get(URI)))
        raise RuntimeError("failed")

    monkeypatch.setattr(cached, "cost_of", fail)
    monkeypatch.setattr(serving, "_register", fail)
    for module in (cached, serving):
        with pytest.raises(RuntimeError, match="failed"):
            module.run(QUICK)
        assert os.environ.get(URI) == before
    assert all(uri and uri.endswith("/mlflow.db") and uri != before for uri in asked)


def test_a_process_of_its_own_imports_this_project() -> None:
    made = child_environment(NAME="value")
    assert made["NAME"] == "value"
    assert made["PYTHONPATH"].split(os.pathsep)[0] == str(ROOT)
    assert "NAME" not in os.environ


def test_a_process_that_ends_without_an_answer_is_not_waited_for() -> None:
    answers = multiprocessing.get_context("spawn").SimpleQueue()
    dead = SimpleNamespace(is_alive=lambda: False)
    with pytest.raises(RuntimeError, match="ended early"):
        streaming._answer(dead, answers)
    answers.put(3)
    assert streaming._answer(dead, answers) == 3
