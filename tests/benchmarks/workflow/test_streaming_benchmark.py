"""The benchmark of streaming waits for no process that has ended."""

import multiprocessing
from types import SimpleNamespace

import pytest

from benchmarks.workflow import streaming


def test_a_process_that_ends_without_an_answer_is_not_waited_for() -> None:
    answers = multiprocessing.get_context("spawn").SimpleQueue()
    dead = SimpleNamespace(is_alive=lambda: False)
    with pytest.raises(RuntimeError, match="ended early"):
        streaming._answer(dead, answers)
    answers.put(3)
    assert streaming._answer(dead, answers) == 3
