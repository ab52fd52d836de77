"""Which trials successive halving trains how far, without trainings; test_search.py has it with them."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from training_jobs import tiny_recipe

from pipelines.workflow.stages.halving import RUNGS, WHOLE, epochs_left, fallen_behind, halve, pause_at
from proser_core.jobs.spec import (
    DEVELOPMENT_SCORES,
    EPOCHS,
    FAILURE,
    SELECTION_METRIC,
    read_all_scores,
    score_key,
    write_failure,
)
from proser_core.jobs.trials import Trial
from proser_core.store.store import load_if_complete, write_manifest


def write_score(trial: Trial, epochs: int, score: float) -> None:
    """One more, after so many epochs."""
    row = {"epochs": float(epochs), SELECTION_METRIC: score, "scored_by": score_key(trial.recipe.calibration)}
    lines = [json.dumps(each) for each in [*read_all_scores(trial.folder), row]]
    (trial.folder / DEVELOPMENT_SCORES).write_text("\n".join(lines))


@dataclass
class Trainer:
    """Trains in no time, a trial's score lower at each pause, so that it matters which is compared; `budget` is for how
    many trainings, or parts of one, there is time."""

    scores: Mapping[str, float]
    budget: int = 10**6
    epochs: dict[str, int] = field(default_factory=dict)
    """How many were trained of each, in this order."""

    def __call__(self, trials: list[Trial], percent: int) -> None:
        for trial in trials:
            if not self.budget:
                return
            self.budget -= 1
            length = trial.recipe.finetune.epochs
            pause = pause_at(percent, length)
            trial.folder.mkdir(exist_ok=True)
            (trial.folder / FAILURE).unlink(missing_ok=True)
            if trial.name not in self.scores:
                write_failure(trial.folder, "it diverged")
                continue
            self.epochs[trial.name] = pause or length
            if pause:
                write_score(trial, pause, self.scores[trial.name] - percent)
            else:
                write_manifest(trial.folder, {})


@pytest.fixture
def trials(tmp_path: Path) -> Callable[[int, int], list[Trial]]:
    recipe = tiny_recipe()

    def made(count: int, epochs: int) -> list[Trial]:
        one = replace(recipe, finetune=replace(recipe.finetune, epochs=epochs))
        return [Trial(one, str(number), {}, tmp_path / str(number)) for number in range(count)]

    return made


def rungs_left(trials: list[Trial]) -> list[list[int]]:
    through, *rungs = epochs_left(trials, {trial.recipe.finetune for trial in trials})
    assert through == []
    return rungs


def rising(count: int) -> dict[str, float]:
    return {str(number): number / count for number in range(count)}


def test_the_best_third_goes_on_at_each_rung(trials: Callable[[int, int], list[Trial]]) -> None:
    train, made = Trainer(rising(25)), trials(25, 20)
    expected = rungs_left(made)
    behind = halve(made, train)
    assert train.epochs == {str(n): 20 if n >= 23 else 6 if n >= 17 else 2 for n in range(25)}
    assert behind == {str(n) for n in range(23)}
    assert expected == [[2] * 25, [4] * 8, [14] * 2]
    assert sum(train.epochs.values()) == sum(map(sum, expected)) == 110
    assert fallen_behind(made) == behind
    assert rungs_left(made) == [[], [], []], "nothing of it is left"


@pytest.mark.parametrize("epochs", [2, 3])
def test_of_few_epochs_two_rungs_are_one(epochs: int, trials: Callable[[int, int], list[Trial]]) -> None:
    train, made = Trainer(rising(9)), trials(9, epochs)
    expected = rungs_left(made)
    behind = halve(made, train)
    assert train.epochs == {str(n): epochs if n >= 6 else 1 for n in range(9)}
    assert (expected, fallen_behind(made)) == ([[1] * 9, [epochs - 1] * 3], behind)


@pytest.mark.parametrize("order", [1, -1])
def test_their_order_does_not_matter(order: int, trials: Callable[[int, int], list[Trial]]) -> None:
    train = Trainer(rising(9))
    halve(trials(9, 5)[::order], train)
    assert train.epochs == {str(n): 5 if n == 8 else 2 if n >= 6 else 1 for n in range(9)}


@pytest.mark.parametrize("order", [1, -1])
def test_nor_does_it_where_all_are_equally_good(order: int, trials: Callable[[int, int], list[Trial]]) -> None:
    train = Trainer(dict.fromkeys(rising(9), 0.5))
    halve(trials(9, 5)[::order], train)
    assert [name for name, epochs in train.epochs.items() if epochs == 5] == ["0"]


@pytest.mark.parametrize("stop", range(1, 15))
def test_a_search_that_was_interrupted_goes_on_as_if_it_had_not_been(
    stop: int, trials: Callable[[int, int], list[Trial]]
) -> None:
    first, second = Trainer(rising(9), budget=stop), Trainer(rising(9))
    halve(trials(9, 5), first)
    assert halve(trials(9, 5), second) == {str(n) for n in range(8)}
    assert first.epochs | second.epochs == {str(n): 5 if n == 8 else 2 if n >= 6 else 1 for n in range(9)}
    assert 9 + 3 + 1 - stop == 10**6 - second.budget if stop <= 13 else not second.epochs, "none was trained twice"


def test_of_those_that_go_through_only_what_they_have_not_trained_is_left(
    trials: Callable[[int, int], list[Trial]],
) -> None:
    done, begun, fresh = trials(3, 5)
    for trial in (done, begun):
        trial.folder.mkdir()
    write_manifest(done.folder, {})
    (begun.folder / EPOCHS).write_text('{"epoch": 0}\n{"epoch": 1}')
    assert epochs_left([done, begun, fresh], ()) == [[3, 5]]


def test_whoever_had_no_time_has_not_fallen_behind(trials: Callable[[int, int], list[Trial]]) -> None:
    assert halve(trials(9, 5), Trainer(rising(9), budget=5)) == set()
    assert halve(trials(9, 5), Trainer(rising(9), budget=5)) == {str(n) for n in range(6)}


def test_one_that_failed_takes_no_place(trials: Callable[[int, int], list[Trial]]) -> None:
    scores = rising(9)
    del scores["8"]
    train, made = Trainer(scores), trials(9, 5)
    behind = halve(made, train)
    assert [name for name, epochs in train.epochs.items() if epochs == 5] == ["7"]
    assert fallen_behind(made) == behind - {"8"}, "it is tried again"
    assert sum(map(sum, rungs_left(made))) == 1, "to the first rung alone: it is known who goes on"


def test_one_that_was_trained_without_pauses_before_is_not_compared(trials: Callable[[int, int], list[Trial]]) -> None:
    made = trials(9, 5)
    made[0].folder.mkdir()
    (made[0].folder / EPOCHS).write_text("{}\n" * 5)
    write_manifest(made[0].folder, {})
    train, expected = Trainer(rising(9)), rungs_left(made)
    halve(made, train)
    assert "0" not in train.epochs
    assert sum(map(sum, expected)) >= sum(train.epochs.values()), "it does not stand for those that go on"
    assert load_if_complete(made[8].folder) is not None


def test_one_that_had_trained_past_a_rung_is_compared_by_its_first_score_after_it(
    trials: Callable[[int, int], list[Trial]],
) -> None:
    train, made = Trainer(rising(9)), trials(9, 5)
    made[8].folder.mkdir()
    write_score(made[8], 2, 1.0)
    assert halve(made, train) == {str(n) for n in range(8)}
    assert train.epochs == {"8": 5, "7": 2, "6": 2, **{str(n): 1 for n in range(6)}}
    assert [row["epochs"] for row in read_all_scores(made[8].folder)] == [2.0]


def test_trials_of_different_length_pause_at_the_same_share_of_their_own_epochs(
    trials: Callable[[int, int], list[Trial]],
) -> None:
    train, made = Trainer(rising(6)), [*trials(3, 5), *trials(6, 25)[3:]]
    expected = rungs_left(made)
    halve(made, train)
    assert train.epochs == {"0": 1, "1": 1, "2": 1, "3": 3, "4": 8, "5": 25}
    assert sum(map(sum, expected)) == sum(train.epochs.values()), "a plan counts the longest as those that go on"


@given(epochs=st.integers(1, 400), percent=st.sampled_from([*RUNGS, WHOLE]))
def test_no_trial_pauses_after_its_last_epoch(epochs: int, percent: int) -> None:
    pause = pause_at(percent, epochs)
    assert 0 <= pause < epochs
    assert pause == 0 or 0 <= pause - percent * epochs / 100 < 1


@pytest.mark.parametrize("stop", range(14))
def test_what_is_left_of_a_search_is_what_is_trained_then(stop: int, trials: Callable[[int, int], list[Trial]]) -> None:
    """A pause of no trained epoch between is not counted: here each part of a training takes one epoch to three."""
    made = trials(9, 5)
    first, second = Trainer(rising(9), budget=stop), Trainer(rising(9))
    halve(made, first)
    for trial in made:
        epochs = [json.dumps({"epoch": number}) for number in range(first.epochs.get(trial.name, 0))]
        if epochs:
            (trial.folder / EPOCHS).write_text("\n".join(epochs))
    left = rungs_left(made)
    before = sum(first.epochs.values())
    halve(made, second)
    assert before + sum(map(sum, left)) == sum((first.epochs | second.epochs).values()) == 9 + 3 * 1 + 3


@pytest.mark.parametrize("lost", ["6", "7"])
def test_one_that_fails_on_its_way_is_tried_again_and_stopped_once_it_is_behind(
    lost: str, trials: Callable[[int, int], list[Trial]]
) -> None:
    made, scores = trials(12, 5), rising(12)
    halve(made[:9], Trainer(scores))
    write_failure(made[int(lost)].folder, "its machine was lost")
    again = Trainer(scores)
    assert made[int(lost)].key not in fallen_behind(made)
    assert made[int(lost)].key in halve(made, again)
    assert again.epochs[lost] == 1, "it is scored again"
