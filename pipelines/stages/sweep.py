"""Stage sweep: every fine-tune of a run, which are the points of its search space and the control."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.context import RunContext
from pipelines.progress import Tracker, watching
from proser_core.config import FinetuneConfig, Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError, ProserError, TrainingError
from proser_core.jobs import spec
from proser_core.jobs.files import read_json, write_json
from proser_core.jobs.store import MANIFEST, Artefact, Built, find
from proser_core.jobs.trials import Trial, control_of, plan_trials
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logits import load_logits
from tune_spaces import expand

ROWS = "trials.json"


def apply_point(recipe: Recipe, point: dict[str, Any]) -> Recipe:
    """The recipe with a point's fields filled in.

    Raises ConfigError for anything but fields of `finetune`: all points share data and pretraining.
    """
    names = sorted(set(FinetuneConfig.__dataclass_fields__) - {"objective"})
    wrong = [name for name in point if name != "finetune"]
    wrong += [f"finetune.{name}" for name in point.get("finetune", {}) if name not in names]
    if wrong:
        raise ConfigError(f"search space {recipe.space!r} sets {wrong[0]}; it may set finetune.* of {', '.join(names)}")
    return replace(recipe, finetune=replace(recipe.finetune, **point["finetune"]))


def finetunes_of(recipe: Recipe) -> list[FinetuneConfig]:
    """The control, the recipe's own point, and every point of its search space."""
    points = [apply_point(recipe, point).finetune for point in expand(recipe.space)]
    return [control_of(recipe).finetune, recipe.finetune, *points]


def sweep(recipe: Recipe, task: Artefact, pretrained: Artefact, context: RunContext, code: str, folder: Path) -> Built:
    """Train what is not trained yet, evaluate every trial, and write one row each.

    Tune's own generator has expanded the space, so that its Tuner is given the missing points alone.
    A trial that failed is a row with its reason. Raises TrainingError where all have failed.
    """
    trials = plan_trials(recipe, context.finetunes, task, pretrained, context.store, bf16=context.bf16, code=code)
    missing = [trial for trial in trials if find(trial.folder) is None]
    watch = SweepWatch(context, trials, OpenSetTask.load(task.path))
    context.say(f"  {len(trials)} trials (the control is one), {len(trials) - len(missing)} of them trained before")
    if missing and context.trains:
        try:
            with watching(watch.poll, context.watch_failed):
                context.cluster.run_trials(
                    [trial.job(task, pretrained, context.bf16) for trial in missing], folder.name
                )
        finally:
            watch.close()
    rows = [watch.row(trial) for trial in trials]
    write_json(folder / ROWS, rows)
    good = [trial.folder for trial, row in zip(trials, rows, strict=True) if row["status"] == "finished"]
    failed = [row for row in rows if row["status"] != "finished"]
    if not any(row["status"] == "finished" and row["objective"] == "proser" for row in rows):
        raise TrainingError(f"every trial failed; the first: {failed[0]['name']}: {failed[0]['reason']}")
    return Built(complete=not failed, linked=tuple(good))


class SweepWatch:
    """Looks at the trials' folders while they run: progress for the terminal, metrics for tracking."""

    def __init__(self, context: RunContext, trials: list[Trial], task: OpenSetTask) -> None:
        self._context, self._trials, self._task = context, trials, task
        self._rows: dict[str, dict[str, Any]] = {}
        total = sum(trial.recipe.finetune.epochs for trial in trials)
        self._progress = Tracker(context.console, "sweep", total, "epochs")

    def poll(self) -> None:
        """Report what is on disk now."""
        # before the epochs are read: of a trial that has ended, all of them are on disk by then
        ended = {trial.key for trial in self._trials if (trial.folder / MANIFEST).is_file()}
        epochs = {trial.key: spec.read_epochs(trial.folder) for trial in self._trials}
        self._progress.update(sum(map(len, epochs.values())), f"{len(ended)}/{len(self._trials)} trials")
        parent = self._context.parent
        for trial in self._trials:
            if epochs[trial.key] and trial.key not in self._rows:
                parent.child(trial.key, trial.name, trial.params()).log_epochs(epochs[trial.key])
                if trial.key in ended and self.row(trial)["status"] == "finished":
                    parent.track_trial(self.row(trial), epochs[trial.key])

    def row(self, trial: Trial) -> dict[str, Any]:
        """The trial's parameters, status and metrics."""
        if trial.key not in self._rows:
            row = _row(trial, self._task)
            if row["status"] != "finished":
                return row
            self._rows[trial.key] = row
        return self._rows[trial.key]

    def close(self) -> None:
        """Take the progress bar away."""
        self._progress.close()


def _row(trial: Trial, task: OpenSetTask) -> dict[str, Any]:
    """A trial's row: parameters, status, the reason of a failure, and metrics."""
    about = {
        "key": trial.key,
        "name": trial.name,
        "objective": trial.recipe.finetune.objective,
        "params": trial.params(),
    }
    if find(trial.folder) is None:
        failure = trial.folder / spec.FAILURE
        reason = (
            failure.read_text() if failure.is_file() else "the worker ended without a word; see the logs of its process"
        )
        return {**about, "status": "failed", "reason": reason, "metrics": {}}
    logits = load_logits(trial.folder / spec.LOGITS)
    try:
        report = evaluate(logits, trial.margin, task, trial.recipe.calibration.target_rate)
    except ProserError as error:
        return {**about, "status": "failed", "reason": str(error), "metrics": {}}
    return {**about, "status": "finished", "reason": "", "metrics": report.flat()}


def read_trials(swept: Artefact) -> list[dict[str, Any]]:
    """The rows that `sweep` wrote."""
    return read_json(swept.path / ROWS)
