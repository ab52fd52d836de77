"""What chooses the point of a sweep: development metrics, and nothing of the test images."""

from typing import Any

import pytest

from proser_core.config import FinetuneConfig, to_json
from proser_core.jobs.selection import Row, num_compared, select

DEFAULT = FinetuneConfig()


def selected(rows: list[Row]) -> Row:
    found = select(rows, DEFAULT)
    assert found is not None
    return found


def row(beta: float, gamma: float, dev: float, test: float, **others: Any) -> Row:
    metrics = {"dev/macro_f1": dev, "dev/auroc": dev, "test/unknown_15/macro_f1": test, "test/unknown_15/auroc": test}
    made = {"key": f"{beta} {gamma}", "status": "finished", "objective": "proser", "metrics": metrics}
    return {**made, "split_index": 0, "params": to_json(FinetuneConfig(beta=beta, gamma=gamma)), **others}


@pytest.mark.parametrize("reverse", [False, True])
def test_swapped_test_metrics_leave_the_choice(reverse: bool) -> None:
    tests = [0.1, 0.5, 0.9]
    devs = [0.3, 0.8, 0.2]
    points = [(0.0, 0.1), (0.1, 0.1), (10.0, 0.1)]
    ordered = reversed(tests) if reverse else tests
    rows = [row(*point, dev, test) for point, dev, test in zip(points, devs, ordered, strict=True)]
    assert selected(rows)["params"]["beta"] == 0.1


@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_tie_goes_to_the_recipes_own_point(position: int) -> None:
    rows = [row(0.0, 0.0, 0.7, 0.9), row(10.0, 10.0, 0.7, 0.9)]
    rows.insert(position, row(DEFAULT.beta, DEFAULT.gamma, 0.7, 0.1))
    chosen = selected(rows)
    assert (chosen["params"]["beta"], chosen["params"]["gamma"]) == (DEFAULT.beta, DEFAULT.gamma)


def test_the_recipes_own_point_does_not_win_without_a_tie() -> None:
    rows = [row(DEFAULT.beta, DEFAULT.gamma, 0.6, 0.9), row(10.0, 10.0, 0.7, 0.1)]
    assert selected(rows)["params"]["beta"] == 10.0


def test_a_point_that_failed_on_a_class_split_is_behind_those_that_finished_on_all() -> None:
    """Splits differ in difficulty: the one that it finished on may be the easy one."""
    rows = [
        row(0.0, 0.1, 0.9, 0.9),
        row(10.0, 0.1, 0.8, 0.5),
        row(0.0, 0.1, 0.1, 0.1, split_index=1, status="failed"),
        row(10.0, 0.1, 0.3, 0.5, split_index=1),
    ]
    assert selected(rows)["params"]["beta"] == 10.0
    assert selected(rows[:2])["params"]["beta"] == 0.0


def test_the_control_and_failed_trials_are_never_chosen() -> None:
    rows = [
        row(1.0, 0.1, 0.99, 0.9, objective="cross_entropy"),
        row(0.0, 0.0, 0.1, 0.1),
        row(10.0, 10.0, 0.9, 0.9, status="failed", metrics={}),
    ]
    assert selected(rows)["params"]["beta"] == 0.0
    assert select([rows[0], rows[2]], DEFAULT) is None


@pytest.mark.parametrize("has_development", [True, False])
def test_it_is_chosen_among_those_that_finished_and_those_that_a_search_compared_and_stopped(
    has_development: bool,
) -> None:
    finished: dict[str, Any] = {} if has_development else {"metrics": {}}
    rows = [
        row(1.0, 0.1, 0.9, 0.9, objective="cross_entropy"),
        row(0.0, 0.0, 0.5, 0.1, **finished),
        row(0.0, 0.0, 0.5, 0.1, split_index=1, **finished),
        row(10.0, 0.0, 0.4, 0.1, status="stopped", metrics={"dev/macro_f1": 0.4}),
        row(10.0, 1.0, 0.0, 0.0, status="stopped", metrics={}),  # not started in time
        row(10.0, 10.0, 0.0, 0.0, status="failed", metrics={}),
    ]
    assert num_compared(rows) == 2
