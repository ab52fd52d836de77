"""Stage sweep: every fine-tune of a run, which are the points of its search spaces and the control."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pipelines.cluster.early_stopping import METRIC, read_scores
from pipelines.progress import Tracker, watching
from pipelines.storage.mirror import agree, watch
from pipelines.workflow.context import RunContext
from proser_core.config import FinetuneConfig, Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError, ProserError, TrainingError
from proser_core.fields import fitting
from proser_core.jobs import spec
from proser_core.jobs.trials import WORKER, Trial, control_of, plan_trials
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logits import load_logits
from proser_core.store.code_version import code_version
from proser_core.store.files import read_json, write_json
from proser_core.store.store import MANIFEST, Artefact, Built, Store, find
from tune_spaces import expand, sample

ROWS = "trials.json"
Row = dict[str, Any]


@dataclass(frozen=True)
class Base:
    """What the fine-tunes of one class split begin from."""

    recipe: Recipe
    task: Artefact
    pretrained: Artefact

    def trials(self, finetunes: Sequence[FinetuneConfig], store: Store, bf16: bool) -> list[Trial]:
        """The trials of these fine-tunes, equal ones once."""
        code = code_version(WORKER)
        return plan_trials(self.recipe, finetunes, self.task, self.pretrained, store, bf16=bf16, code=code)


def apply_point(recipe: Recipe, point: dict[str, Any], space: str) -> FinetuneConfig:
    """The recipe's fine-tune with a point's fields filled in.

    Raises ConfigError for anything but fields of `finetune`, since all points share data and pretraining, and for
    values that do not suit them.
    """
    names = sorted(set(FinetuneConfig.__dataclass_fields__) - {"objective"})
    try:
        fields = fitting(FinetuneConfig, point.get("finetune", {}), "finetune")
        wrong = [name for name in point if name != "finetune"] + [f"finetune.{n}" for n in fields if n not in names]
        if wrong:
            raise ConfigError(f"it sets {wrong[0]}; it may set finetune.* of {', '.join(names)}")
        return replace(recipe.finetune, **fields)
    except ConfigError as error:
        raise ConfigError(f"search space {space!r}: {error}") from error


def points_of(recipe: Recipe, space: str) -> list[FinetuneConfig]:
    """The points of a search space around the recipe; none for an empty name. Raises ConfigError for another one that
    is no space."""
    return [apply_point(recipe, point, space) for point in expand(space)] if space else []


def sampled_points(recipe: Recipe, space: str, count: int) -> list[FinetuneConfig]:
    """`count` points drawn from a space with random draws, by the recipe's seed."""
    return [apply_point(recipe, point, space) for point in sample(space, count, recipe.seed)]


def finetunes_of(recipe: Recipe, points: Sequence[FinetuneConfig]) -> list[FinetuneConfig]:
    """The control, the recipe's own point, and the points of its search spaces; equal ones once."""
    return list(dict.fromkeys([control_of(recipe).finetune, recipe.finetune, *points]))


def sweep(bases: Sequence[Base], context: RunContext, folder: Path) -> Built:
    """Train what is not trained yet, evaluate every trial, and write one row each.

    Tune's own generator has expanded the spaces, so that its Tuner is given the missing points alone.
    A trial that failed is a row with its reason. Raises TrainingError where all have failed.
    """
    planned = [(base, trial) for base in bases for trial in base.trials(context.finetunes, context.store, context.bf16)]
    trials = [trial for _, trial in planned]
    agree(context.store, [trial.folder for trial in trials])
    missing = [(base, trial) for base, trial in planned if find(trial.folder) is None]
    watcher = SweepWatch(context, trials, {base.recipe.data.split_index: base.task for base in bases})
    controls = sum(trial.is_control for trial in trials)
    told = "the control is one" if controls == 1 else f"{controls} of them controls"
    context.say(f"  {len(trials)} trials ({told}), {len(trials) - len(missing)} of them trained before")
    timed_out = False
    if missing and context.trains:
        try:
            with watching(watcher.poll, context.watch_failed):
                timed_out = _train(missing, context, folder.name)
        finally:
            watcher.close()
    rows = [watcher.row(trial) for trial in trials]
    write_json(folder / ROWS, rows)
    good = [trial.folder for trial, row in zip(trials, rows, strict=True) if row["status"] == "finished"]
    placeholders = [row for row in rows if row["objective"] == "proser"]
    if placeholders and not any(row["status"] == "finished" for row in placeholders):
        first = next(row for row in rows if row["status"] != "finished")
        raise TrainingError(f"no trial with placeholders finished; the first: {first['name']}: {first['reason']}")
    if timed_out:
        context.say("  the time is up; the same command goes on, with as much time again")
    failed = any(row["status"] == "failed" for row in rows)
    return Built(complete=not (failed or timed_out), linked=tuple(good))


def _train(missing: Sequence[tuple[Base, Trial]], context: RunContext, name: str) -> bool:
    """Train: what is never stopped early first, then what is searched. Whether the time ran out."""
    started, limit, searched = time.monotonic(), context.search.max_seconds, frozenset(context.search.points)
    workers = missing[0][0].recipe.cluster.num_workers
    for stop_early in (False, True):
        left = limit - (time.monotonic() - started)
        if limit and left <= 0:
            break
        jobs = [
            trial.job(base.task, base.pretrained, context.bf16)
            for base, trial in missing
            if (trial.recipe.finetune in searched) == stop_early
        ]
        if jobs:
            context.cluster.run_jobs(
                jobs, workers, f"{name}-{stop_early:d}", max_seconds=left if limit else 0.0, stop_early=stop_early
            )
    return bool(limit) and time.monotonic() - started >= limit


def record(rows: Sequence[dict[str, Any]], context: RunContext) -> None:
    """Bring tracking up to date with the rows of a sweep, and collect what failed."""
    for row in rows:
        if row["status"] == "failed":
            context.failures.append(f"{row['name']}: {row['reason']}")
        epochs = spec.read_epochs(context.store.root / spec.TRIALS / row["key"])
        context.track(lambda row=row, epochs=epochs: context.parent.track_trial(row, epochs))  # type: ignore[misc]


class SweepWatch:
    """Looks at the trials' folders while they run: progress for the terminal, metrics for tracking."""

    def __init__(self, context: RunContext, trials: list[Trial], tasks: dict[int, Artefact]) -> None:
        self._context, self._trials = context, trials
        self._tasks = {split_index: OpenSetTask.load(task.path) for split_index, task in tasks.items()}
        self._spaces = {name: frozenset(points) for name, points in context.spaces.items()}
        self._searched = frozenset(context.search.points)
        self._rows: dict[str, dict[str, Any]] = {}
        self._tracked: dict[str, int] = {}  # epochs of trials whose folders need no more look
        total = sum(trial.recipe.finetune.epochs for trial in trials)
        self._progress = Tracker(context.console, "sweep", total, "epochs")

    def poll(self) -> None:
        """Report what is on disk now, and a cluster that lost its room.

        A look costs what runs, not what the sweep has: it comes every second, and thousands of folders may wait.
        """
        watch(self._context.store, [trial.folder for trial in self._trials])
        self._context.watch_cluster(self._trials[0].recipe.cluster.num_workers)
        begun = {path.name for path in self._trials[0].folder.parent.glob("*")}
        trials = [trial for trial in self._trials if trial.key in begun and trial.key not in self._tracked]
        # before the epochs are read: of a trial that has ended, all of them are on disk by then
        ended = {trial.key for trial in trials if (trial.folder / MANIFEST).is_file()}
        epochs = {trial.key: spec.read_epochs(trial.folder) for trial in trials}
        done = sum(self._tracked.values()) + sum(map(len, epochs.values()))
        self._progress.update(done, f"{len(self._tracked) + len(ended)}/{len(self._trials)} trials")
        parent = self._context.parent
        for trial in trials:
            if not epochs[trial.key]:
                continue
            if trial.key in ended and self.row(trial)["status"] == "finished":
                parent.track_trial(self.row(trial), epochs[trial.key])
                self._tracked[trial.key] = len(epochs[trial.key])
            else:
                parent.track_epochs(trial.key, trial.name, trial.params(), epochs[trial.key])

    def row(self, trial: Trial) -> dict[str, Any]:
        """The trial's parameters, status, the reason where it is not finished, and metrics."""
        if trial.key not in self._rows:
            row = self._row(trial)
            if row["status"] != "finished":
                return row
            self._rows[trial.key] = row
        return self._rows[trial.key]

    def _row(self, trial: Trial) -> Row:
        tuned, split_index = trial.recipe.finetune, trial.recipe.data.split_index
        about = {
            "key": trial.key,
            "name": trial.name,
            "objective": tuned.objective,
            "split_index": split_index,
            "spaces": [name for name, points in self._spaces.items() if tuned in points],
            "params": trial.params(),
        }
        if find(trial.folder) is None:
            may_stop = bool(self._context.search.max_seconds) or tuned in self._searched
            return {**about, **_unfinished(trial, may_stop)}
        logits = load_logits(trial.folder / spec.LOGITS)
        try:
            report = evaluate(logits, trial.margin, self._tasks[split_index], trial.recipe.calibration.target_rate)
        except ProserError as error:
            return {**about, "status": "failed", "reason": str(error), "metrics": {}}
        return {**about, "status": "finished", "reason": "", "metrics": report.flat()}

    def close(self) -> None:
        """Take the progress bar away."""
        self._progress.close()


def _unfinished(trial: Trial, may_stop: bool) -> Row:
    """Why a trial has no outcome: it failed, or it was stopped by a search or at the end of the budget."""
    failure, epochs = trial.folder / spec.FAILURE, len(spec.read_epochs(trial.folder))
    if failure.is_file():
        return {"status": "failed", "reason": failure.read_text(), "metrics": {}}
    if not may_stop:
        reason = "the worker ended without a word; see the logs of its process"
        return {"status": "failed", "reason": reason, "metrics": {}}
    scores = read_scores(trial.folder)
    metrics = {METRIC: scores[-1][METRIC]} if scores else {}
    reason = f"stopped after epoch {epochs} of {trial.recipe.finetune.epochs}" if epochs else "not begun in time"
    return {"status": "stopped", "reason": reason, "metrics": metrics}


def read_trials(swept: Artefact) -> list[dict[str, Any]]:
    """The rows that `sweep` wrote."""
    return read_json(swept.path / ROWS)
