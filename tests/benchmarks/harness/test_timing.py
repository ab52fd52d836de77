"""Timing leaves the process as it was, and waits for a GPU."""

from pathlib import Path

import pytest
import torch

from benchmarks.harness import timing
from benchmarks.harness.settings import Settings
from benchmarks.harness.timing import alternate, on_threads

CORE = Path(timing.__file__).parents[1] / "core"


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


@pytest.mark.parametrize("name", ["step", "epoch", "peak", "augmentation", "growth"])
def test_no_benchmark_sets_threads_by_itself(name: str) -> None:
    source = (CORE / f"{name}.py").read_text()
    assert "set_num_threads" not in source
    assert "on_threads(" in source


def test_variants_alternate_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[str] = []
    monkeypatch.setattr(Settings, "sample_seconds", 0.0)
    samples = alternate({"a": lambda: called.append("a"), "b": lambda: called.append("b")}, Settings(quick=True))
    assert called[-4:] == ["a", "b", "a", "b"]
    assert len(called) > 4
    assert {name: len(values) for name, values in samples.items()} == {"a": 2, "b": 2}


def test_a_gpu_is_waited_for_before_and_after_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(timing, "_wait_for_gpu", lambda: order.append("wait"))
    timing.seconds_of(lambda: order.append("call"), calls=2)
    assert order == ["wait", "call", "call", "wait"]
