"""The rows of a sweep: each trial's parameters, what became of it, and its metrics, read from its folder."""

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from proser_core.config import FinetuneConfig
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import ProserError, hide_secrets
from proser_core.jobs import spec
from proser_core.jobs.selection import Row
from proser_core.jobs.trials import Trial
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.logit_tables import load_logits
from proser_core.recognition.scores import own_score
from proser_core.store.files import read_json, write_json
from proser_core.store.store import Artefact, load_if_complete

ROWS = "trials.json"


class TrialRows:
    """Rows by trial; one that is trained is evaluated once. `tasks` are prepared tasks by class split, `may_stop` the
    fine-tunes that a search may stop early; `unreported` gives the reason of a failure that left none."""

    def __init__(
        self,
        tasks: Mapping[int, Artefact],
        spaces: Mapping[str, Collection[FinetuneConfig]],
        may_stop: Collection[FinetuneConfig],
        unreported: Callable[[], str],
    ) -> None:
        self._tasks = {split_index: OpenSetTask.load(task.path) for split_index, task in tasks.items()}
        self._spaces = {name: frozenset(points) for name, points in spaces.items()}
        self._may_stop, self._unreported = frozenset(may_stop), unreported
        self._evaluated: dict[str, Row] = {}

    def row(self, trial: Trial) -> Row:
        """The trial's parameters, status, the reason where it is not finished, without secrets of URIs, and metrics."""
        if trial.key in self._evaluated:
            return self._evaluated[trial.key]
        is_trained = load_if_complete(trial.folder) is not None
        row = {**self._about(trial), **(self._outcome(trial) if is_trained else self._unfinished(trial))}
        row["reason"] = hide_secrets(row["reason"])
        if is_trained:
            self._evaluated[trial.key] = row
        return row

    def _about(self, trial: Trial) -> Row:
        tuned = trial.recipe.finetune
        return {
            "key": trial.key,
            "name": trial.name,
            "objective": tuned.objective,
            "split_index": trial.recipe.data.split_index,
            "spaces": [name for name, points in self._spaces.items() if tuned in points],
            "params": trial.params(),
        }

    def _outcome(self, trial: Trial) -> Row:
        logits, task = load_logits(trial.folder / spec.LOGITS), self._tasks[trial.recipe.data.split_index]
        try:
            report = evaluate(logits, own_score(trial.recipe), task, trial.recipe.calibration.target_rate)
        except ProserError as error:
            return {"status": "failed", "reason": str(error), "metrics": {}}
        return {"status": "finished", "reason": "", "metrics": report.flat()}

    def _unfinished(self, trial: Trial) -> Row:
        """Why a trial has no outcome: it failed, or a search or the end of the budget stopped it."""
        failure, epochs = spec.read_failure(trial.folder), len(spec.read_epochs(trial.folder))
        if failure:
            return {"status": "failed", "reason": failure, "metrics": {}}
        if trial.recipe.finetune not in self._may_stop:
            return {"status": "failed", "reason": self._unreported(), "metrics": {}}
        scores = spec.read_scores(trial.folder, trial.recipe.calibration)
        scores = [row for row in scores if row["epochs"] == epochs]
        metrics = {spec.SELECTION_METRIC: scores[-1][spec.SELECTION_METRIC]} if scores else {}
        reason = f"stopped after epoch {epochs} of {trial.recipe.finetune.epochs}" if epochs else "not started in time"
        return {"status": "stopped", "reason": reason, "metrics": metrics}


def write_rows(rows: Sequence[Row], folder: Path) -> None:
    """Write the rows, to be read again by `read_rows`."""
    write_json(folder / ROWS, list(rows))


def read_rows(swept: Artefact) -> list[Row]:
    """The rows of a sweep."""
    return read_json(swept.path / ROWS)


def failures_of(rows: Sequence[Row]) -> list[str]:
    """Trials that failed, each with its reason."""
    return [f"{row['name']}: {row['reason']}" for row in rows if row["status"] == "failed"]
