"""Stage sweep: every point of the search space and the control, each one fine-tune."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from pipelines.context import RunContext
from pipelines.progress import Tracker, watching
from proser_core.baselines import BASELINES
from proser_core.config import FinetuneConfig, Recipe, to_json
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ConfigError, ProserError, TrainingError
from proser_core.jobs import spec
from proser_core.jobs.files import read_json, write_json
from proser_core.jobs.store import MANIFEST, Artefact, Built, find
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logits import load_logits
from proser_core.recognition.scoring import Margin, PlaceholderMargin
from tune_spaces import expand

TRIALS = "trials.json"
NAMED = ("beta", "gamma", "num_dummies", "alpha")
PLACEHOLDER_FIELDS = (*NAMED, "mixup", "mixture_batch_norm")


@dataclass(frozen=True)
class Trial:
    """One fine-tune: its recipe with the point filled in, and where its outcome is."""

    recipe: Recipe
    name: str
    inputs: dict[str, Any]
    folder: Path

    @property
    def key(self) -> str:
        """Name of the trial in storage and in tracking."""
        return self.folder.name

    @property
    def margin(self) -> Margin:
        """How the trial's own network is scored."""
        is_control = self.recipe.finetune.objective == "cross_entropy"
        return BASELINES["MaxLogit"] if is_control else PlaceholderMargin(self.recipe.calibration.dummy_weight)

    def params(self) -> dict[str, Any]:
        """What tracking shows as the trial's parameters."""
        tuned = self.recipe.finetune
        return {
            **to_json(tuned),
            "C": tuned.num_dummies,
            "split_index": self.recipe.data.split_index,
            "seed": self.recipe.seed,
        }

    def job(self, task: Artefact, pretrained: Artefact, bf16: bool) -> spec.Job:
        """What a worker is to do."""
        return spec.Job(
            kind="finetune",
            recipe=to_json(self.recipe),
            task=str(task.path),
            folder=str(self.folder),
            weights=str(pretrained.path / spec.WEIGHTS) if self.recipe.finetune.start == "pretrained" else "",
            threads=self.recipe.cluster.cpus_per_worker,
            bf16=bf16,
            inputs=self.inputs,
        )


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


def plan_trials(recipe: Recipe, task: Artefact, pretrained: Artefact, context: RunContext, code: str) -> list[Trial]:
    """The control, the recipe's own point, and every point of the space; equal ones once."""
    recipes = [control_of(recipe), recipe, *(apply_point(recipe, point) for point in expand(recipe.space))]
    trials: dict[str, Trial] = {}
    for one in recipes:
        weights = pretrained.digest if one.finetune.start == "pretrained" else ""
        inputs = spec.job_inputs("finetune", one, task, weights, context.bf16, code)
        trial = Trial(one, _name(one.finetune, recipe.finetune), inputs, context.store.folder("trials", inputs))
        trials.setdefault(trial.key, trial)
    return list(trials.values())


def control_of(recipe: Recipe) -> Recipe:
    """The cross-entropy fine-tune beside PROSER; fields of the placeholders do not matter to it."""
    plain = FinetuneConfig()
    ignored = {name: getattr(plain, name) for name in PLACEHOLDER_FIELDS}
    return replace(recipe, finetune=replace(recipe.finetune, objective="cross_entropy", **ignored))


def _name(tuned: FinetuneConfig, base: FinetuneConfig) -> str:
    """Name for people: the paper's four numbers, and what else differs from the recipe."""
    if tuned.objective == "cross_entropy":
        return "cross-entropy control"
    others = [f.name for f in fields(tuned) if f.name not in NAMED and getattr(tuned, f.name) != getattr(base, f.name)]
    extra = "".join(f", {name} {getattr(tuned, name)}" for name in others)
    return f"beta {tuned.beta:g}, gamma {tuned.gamma:g}, C {tuned.num_dummies}, alpha {tuned.alpha:g}{extra}"


def sweep(recipe: Recipe, task: Artefact, pretrained: Artefact, context: RunContext, code: str, folder: Path) -> Built:
    """Train what is not trained yet, evaluate every trial, and write one row each.

    Tune's own generator has expanded the space, so that its Tuner is given the missing points alone.
    A trial that failed is a row with its reason. Raises TrainingError where all have failed.
    """
    trials = plan_trials(recipe, task, pretrained, context, code)
    missing = [trial for trial in trials if find(trial.folder) is None]
    watch = SweepWatch(context, trials, OpenSetTask.load(task.path))
    context.say(f"  {len(trials)} trials (the control is one), {len(trials) - len(missing)} of them trained before")
    if missing:
        try:
            with watching(watch.poll, context.watch_failed):
                context.cluster.run_trials(
                    [trial.job(task, pretrained, context.bf16) for trial in missing], folder.name
                )
        finally:
            watch.close()
    rows = [watch.row(trial) for trial in trials]
    write_json(folder / TRIALS, rows)
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
        epochs = {trial.key: spec.read_epochs(trial.folder) for trial in self._trials}
        ended = sum((trial.folder / MANIFEST).is_file() for trial in self._trials)
        self._progress.update(sum(map(len, epochs.values())), f"{ended}/{len(self._trials)} trials")
        parent = self._context.parent
        for trial in self._trials:
            if epochs[trial.key] and trial.key not in self._rows:
                parent.child(trial.key, trial.name, trial.params()).log_epochs(epochs[trial.key])
                if (trial.folder / MANIFEST).is_file() and self.row(trial)["status"] == "finished":
                    parent.track_trial(self.row(trial), epochs[trial.key])

    def row(self, trial: Trial) -> dict[str, Any]:
        """The trial's parameters, status and metrics."""
        if trial.key not in self._rows:
            row = _evaluate_trial(trial, self._task)
            if row["status"] != "finished":
                return row
            self._rows[trial.key] = row
        return self._rows[trial.key]

    def close(self) -> None:
        """Take the progress bar away."""
        self._progress.close()


def _evaluate_trial(trial: Trial, task: OpenSetTask) -> dict[str, Any]:
    about = {
        "key": trial.key,
        "name": trial.name,
        "objective": trial.recipe.finetune.objective,
        "params": trial.params(),
    }
    if find(trial.folder) is None:
        failure = trial.folder / spec.FAILURE
        reason = failure.read_text() if failure.is_file() else "the worker ended without a word; see Ray's logs"
        return {**about, "status": "failed", "reason": reason, "metrics": {}}
    logits = load_logits(trial.folder / spec.LOGITS)
    try:
        report = evaluate(logits, trial.margin, task, trial.recipe.calibration.target_rate)
    except ProserError as error:
        return {**about, "status": "failed", "reason": str(error), "metrics": {}}
    return {**about, "status": "finished", "reason": "", "metrics": report.flat()}


def read_trials(swept: Artefact) -> list[dict[str, Any]]:
    """The rows that `sweep` wrote."""
    return read_json(swept.path / TRIALS)
