"""Successive halving (Jamieson and Talwalkar 2016): every trial trains up to the first rung, the best third of them up
to the second, and the best third of those to the end.

Trials are compared on development data alone, and only once all have come to the rung: which ones go on depends on
neither their order nor an interruption. One that had trained past a rung before it was compared, without pauses, is
compared as it is then.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from proser_core.config import FinetuneConfig
from proser_core.jobs.spec import SELECTION_METRIC, read_epochs, read_failure, read_scores
from proser_core.jobs.trials import Trial
from proser_core.store.store import load_if_complete

RUNGS = (10, 30)
"""Percent of a trial's own epochs; points of one search may differ in their number, and so in their learning rates."""
WHOLE = 100
ONE_IN = 3
"""One of so many trials goes on at a rung, rounded down as in the paper; at least one."""


def halve(trials: Sequence[Trial], train: Callable[[list[Trial], int], None]) -> set[str]:
    """Train the trials, and fewer of them after each rung: `train` is called with those that have not come as far as so
    many percent of their epochs. Ends where it leaves one that has neither come so far nor failed, for lack of time.
    The keys of trials that fell behind."""
    left, behind = list(trials), set[str]()
    for percent in (*_rungs(trials), WHOLE):
        waiting = [trial for trial in left if not _has_reached(trial, percent)]
        if waiting:
            train(waiting, percent)
        if percent == WHOLE or _are_undecided(waiting, percent):
            break
        best = _best(left, percent)
        behind |= {trial.key for trial in left} - {trial.key for trial in best}
        left = best
    return behind


def fallen_behind(trials: Sequence[Trial]) -> set[str]:
    """The keys of trials that a search has compared and stopped; one that failed is tried again."""
    behind = halve(trials, lambda waiting, percent: None)
    return {trial.key for trial in trials if trial.key in behind and not read_failure(trial.folder)}


def _are_undecided(trials: Sequence[Trial], percent: int) -> bool:
    """Whether one of them has neither reached a rung nor failed."""
    return any(not (_has_reached(trial, percent) or read_failure(trial.folder)) for trial in trials)


def epochs_left(trials: Sequence[Trial], stoppable: Collection[FinetuneConfig]) -> list[list[int]]:
    """How many epochs trials have still to train: of each that goes through, and then by rung of those `stoppable`.
    Where it is not known yet which will be the best, those with most to train stand for them."""
    through = [trial for trial in trials if trial.recipe.finetune not in stoppable and not _has_reached(trial, WHOLE)]
    found = [[_epochs_between(trial, 0, WHOLE) for trial in through]]
    left = [trial for trial in trials if trial.recipe.finetune in stoppable]
    for before, percent in pairwise((0, *_rungs(left), WHOLE)) if left else ():
        waiting = [trial for trial in left if not _has_reached(trial, percent)]
        found.append([_epochs_between(trial, before, percent) for trial in waiting])
        most = sorted(left, key=lambda trial: -_epochs_between(trial, percent, WHOLE))
        left = most[: _number_kept(len(left))] if _are_undecided(waiting, percent) else _best(left, percent)
    return found


def pause_at(percent: int, epochs: int) -> int:
    """After how many of its epochs a trial pauses; 0 where it has no more of them."""
    reached = _epochs_at(percent, epochs)
    return reached if reached < epochs else 0


def _rungs(trials: Sequence[Trial]) -> list[int]:
    """The rungs at which a trial has more epochs than at the one before: of three epochs, 10 and 30 % are the first."""
    lengths = {trial.recipe.finetune.epochs for trial in trials}
    steps = pairwise((0, *RUNGS))
    return [at for before, at in steps if any(_epochs_at(at, each) > _epochs_at(before, each) for each in lengths)]


def _epochs_at(percent: int, epochs: int) -> int:
    return -(-percent * epochs // 100)


def _epochs_between(trial: Trial, before: int, percent: int) -> int:
    """Epochs that it has not trained between two rungs."""
    epochs = trial.recipe.finetune.epochs
    trained = max(len(read_epochs(trial.folder)), _epochs_at(before, epochs))
    return max(0, _epochs_at(percent, epochs) - trained)


def _number_kept(count: int) -> int:
    return count // ONE_IN or min(count, 1)


def _best(trials: Sequence[Trial], percent: int) -> list[Trial]:
    """Best first, of those that have a score: one that failed has none, nor one that was trained to its end at once."""
    scores = {trial.key: score for trial in trials if (score := _score(trial, percent)) is not None}
    scored = [trial for trial in trials if trial.key in scores]
    return sorted(scored, key=lambda trial: (-scores[trial.key], trial.key))[: _number_kept(len(scored))]


def _score(trial: Trial, percent: int) -> float | None:
    """Its score at the rung, or the first one after it."""
    epochs = _epochs_at(percent, trial.recipe.finetune.epochs)
    scores = read_scores(trial.folder, trial.recipe.calibration)
    return next((row[SELECTION_METRIC] for row in scores if row["epochs"] >= epochs), None)


def _has_reached(trial: Trial, percent: int) -> bool:
    """Whether it has trained so far. One that failed later has not: it is tried again."""
    if percent < WHOLE and _score(trial, percent) is not None:
        return not read_failure(trial.folder)
    return load_if_complete(trial.folder) is not None
