"""Answers of processes are waited for as long as these live."""

import multiprocessing
from types import SimpleNamespace

import pytest

from benchmarks.harness.processes import answer_of


def test_a_process_that_ends_without_an_answer_is_not_waited_for() -> None:
    answers = multiprocessing.get_context("spawn").Queue()
    alive, dead = (SimpleNamespace(is_alive=lambda value=value: value) for value in (True, False))
    with pytest.raises(RuntimeError, match="ended early"):
        answer_of([alive, dead], answers)
    answers.put(3)
    assert answer_of([alive, dead], answers) == 3


def test_what_a_process_does_can_be_looked_at_meanwhile() -> None:
    answers = multiprocessing.get_context("spawn").Queue()
    assert answer_of([SimpleNamespace(is_alive=lambda: True)], answers, lambda: answers.put("seen")) == "seen"
