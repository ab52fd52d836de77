"""Which trials successive halving stops, by Tune's scheduler alone; tests/pipelines/workflow/test_search.py has it with
trainings."""

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray import tune

from pipelines.cluster.early_stopping import TIME, early_stopping, report_score
from proser_core.jobs.spec import SCORES, SELECTION_METRIC
from proser_core.store.store import write_manifest


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, float]]:
    """The rows that reach Tune."""
    rows: list[dict[str, float]] = []
    monkeypatch.setattr(tune, "report", rows.append)
    return rows


def stopped_at(
    trials: Mapping[str, tuple[int, float]], reported: list[dict[str, float]], scheduler: Any = None
) -> dict[str, int]:
    """Epoch after which each trial is stopped, 0 where never; a trial has its number of epochs and a score of all of
    them. All train side by side, in the order given, an epoch each."""
    scheduler = scheduler or early_stopping()
    found = dict.fromkeys(trials, 0)
    runners = {name: SimpleNamespace(trial_id=name) for name in trials}
    for runner in runners.values():
        scheduler.on_trial_add(None, runner)
    for epoch in range(1, max(epochs for epochs, _ in trials.values()) + 1):
        for name, (epochs, value) in trials.items():
            if found[name] or epoch > epochs:
                continue
            reported.clear()
            report_score({TIME: float(epoch), SELECTION_METRIC: value}, epochs)
            if any(scheduler.on_trial_result(None, runners[name], row) == "STOP" for row in reported):
                found[name] = epoch
    return found


def falling(count: int, epochs: int) -> dict[str, tuple[int, float]]:
    return {str(number): (epochs, 1.0 - number / count) for number in range(count)}


def test_those_that_fall_behind_are_stopped_at_a_fifth_of_their_epochs(reported: list[dict[str, float]]) -> None:
    assert list(stopped_at(falling(9, 10), reported).values()) == [0] + [2] * 8


@pytest.mark.parametrize("epochs", [1, 2, 3, 5, 9, 20])
def test_no_trial_is_stopped_after_its_last_epoch(epochs: int, reported: list[dict[str, float]]) -> None:
    found = stopped_at(falling(25, epochs), reported).values()
    assert max(found) < epochs
    assert bool(max(found)) == (epochs > 1)


def test_trials_of_different_length_are_compared_at_the_same_share_of_their_own_epochs(
    reported: list[dict[str, float]],
) -> None:
    """At its fifth epoch of 25 the long one is where the others were at their first, with a rate as high."""
    found = stopped_at({"best": (5, 0.9), "second": (5, 0.8), "long": (25, 0.85)}, reported)
    assert found["best"] == 0
    assert found["long"] == 5


def test_a_continued_search_knows_those_that_have_finished_and_no_others(
    tmp_path: Path, reported: list[dict[str, float]]
) -> None:
    for name, value in (("finished", 0.9), ("stopped", 0.1)):
        folder = tmp_path / name
        folder.mkdir()
        rows = [{TIME: float(epoch), SELECTION_METRIC: value} for epoch in range(1, 6)]
        (folder / SCORES).write_text("\n".join(map(json.dumps, rows)))
    write_manifest(tmp_path / "finished", {})
    alone = {"only": (5, 0.5)}
    assert stopped_at(alone, reported, early_stopping([tmp_path / "stopped"])) == {"only": 0}
    assert stopped_at(alone, reported, early_stopping(tmp_path.iterdir())) == {"only": 1}
