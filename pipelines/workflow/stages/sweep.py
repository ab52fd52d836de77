"""Stage sweep: every fine-tune of a run, which are the points of its search spaces and the control."""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipelines.cluster.attempts import unreported_exit
from pipelines.progress import ProgressBar, poll_in_background
from pipelines.workflow.session import TimeUpError, TrainingSession
from pipelines.workflow.stages.halving import WHOLE, epochs_left, fallen_behind, halve, pause_at
from pipelines.workflow.stages.images import embed
from pipelines.workflow.stages.trial_rows import TrialRows, write_rows
from pipelines.workflow.stages.waiting import Shortage, first_epoch, number_running
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.config import FinetuneConfig
from proser_core.errors import TrainingError
from proser_core.jobs import spec
from proser_core.jobs.selection import Row
from proser_core.jobs.trials import Trial
from proser_core.store.store import MANIFEST, BuildResult, load_if_complete
from proser_core.titles import counted


def sweep(
    splits: Sequence[TrainedSplit],
    finetunes: Sequence[FinetuneConfig],
    spaces: Mapping[str, Sequence[FinetuneConfig]],
    stoppable: Sequence[FinetuneConfig],
    max_seconds: float,
    session: TrainingSession,
    folder: Path,
) -> BuildResult:
    """Train what is not trained yet, evaluate every trial, and write a row for each, also for one that failed. Raises
    TrainingError where all have failed."""
    planned = [(split, trial) for split in splits for trial in split.trials(finetunes, session.store)]
    trials = [trial for _, trial in planned]
    session.store.sync([trial.folder for trial in trials])
    session.store.poll([trial.folder for trial in trials])
    missing = [(split, trial) for split, trial in planned if load_if_complete(trial.folder) is None]
    may_stop = finetunes if max_seconds else stoppable
    rows = TrialRows({split.index: split.task for split in splits}, spaces, may_stop, unreported_exit)
    controls = sum(trial.is_control for trial in trials)
    among = "one of them the control" if controls == 1 else f"{controls} of them controls"
    counts = counted(len(trials), "trial") + (f" ({among})" if controls else "")
    session.say(f"  {counts}, {len(trials) - len(missing)} trained before")
    behind: set[str] = set()
    if missing and session.trains:
        behind = _train(missing, frozenset(stoppable), max_seconds, rows, trials, session, folder.name)
    found = [rows.row(trial) for trial in trials]
    timed_out = any(row["status"] == "stopped" and row["key"] not in behind for row in found)
    if timed_out:
        session.say("  the time is up; the same command continues, with as much time again")
    try:
        return _write(found, trials, folder, timed_out)
    except TrainingError:  # the node that tracks rows is not reached
        track_rows(found, session)
        raise


def _write(rows: list[Row], trials: Sequence[Trial], folder: Path, timed_out: bool) -> BuildResult:
    write_rows(rows, folder)
    placeholders = [row for row in rows if row["objective"] == "proser"]
    statuses = {row["status"] for row in placeholders}
    if timed_out and statuses == {"stopped"}:
        raise TimeUpError("no point had finished when the time was up, so that there is nothing to report yet")
    if placeholders and "finished" not in statuses:
        first = next((row for row in placeholders if row["status"] == "failed"), placeholders[0])
        raise TrainingError(f"no trial with placeholders finished; the first: {first['name']}: {first['reason']}")
    finished = [trial.folder for trial, row in zip(trials, rows, strict=True) if row["status"] == "finished"]
    failed = any(row["status"] == "failed" for row in rows)
    return BuildResult(complete=not (failed or timed_out), linked=tuple(finished))


def _train(
    missing: Sequence[tuple[TrainedSplit, Trial]],
    stoppable: frozenset[FinetuneConfig],
    limit: float,
    rows: TrialRows,
    trials: Sequence[Trial],
    session: TrainingSession,
    name: str,
) -> set[str]:
    """Train for at most `limit` seconds (0: no limit): what is never stopped early first, then what may be. The keys of
    trials that fell behind."""
    started = time.monotonic()
    embed("finetune", {split.index: (split.recipe, split.task) for split, _ in missing}.values(), session)
    workers = missing[0][0].recipe.cluster.num_workers
    jobs = {trial.key: trial.job(split.task, split.pretrained) for split, trial in missing}
    compared = [trial for trial in trials if trial.recipe.finetune in stoppable]

    def train(some: Sequence[Trial], percent: int = WHOLE) -> None:
        """Train up to so many percent of their epochs, or to the end of the time."""
        left = limit - (time.monotonic() - started)
        if limit and left <= 0:
            return
        pauses = {trial.key: pause_at(percent, trial.recipe.finetune.epochs) for trial in some}
        now = [replace(jobs[key], pause=pause) for key, pause in pauses.items()]
        expected = {trial.key: pauses[trial.key] or trial.recipe.finetune.epochs for trial in some}
        watch.expect(expected, started + limit if limit else math.inf, fallen_behind(compared))
        left, titles = left if limit else 0.0, {trial.key: trial.name for trial in some}
        session.cluster.run_jobs(now, workers, f"{name}-{percent}", max_seconds=left, titles=titles)

    watch = SweepWatch(session, trials, rows, stoppable)
    with watch.progress, poll_in_background(watch.poll, session.tracking.warn, session.tracking.say_awaited):
        if others := [trial for _, trial in missing if trial.recipe.finetune not in stoppable]:
            train(others)
        return halve(compared, train)


def track_rows(rows: Sequence[Row], session: TrainingSession) -> None:
    """Bring tracking up to date with the rows of a sweep."""
    for row in rows:
        epochs = spec.read_epochs(session.store.root / spec.TRIALS / row["key"])
        session.tracking.track(session.run.track_trial, row, epochs)


class SweepWatch:
    """Reads the trials' folders while some of them run: progress for the terminal, metrics for tracking. Those
    `stoppable` do not all train to their ends."""

    def __init__(
        self,
        session: TrainingSession,
        trials: Sequence[Trial],
        rows: TrialRows,
        stoppable: Collection[FinetuneConfig] = (),
    ) -> None:
        self._session, self._trials, self._rows, self._stoppable = session, trials, rows, stoppable
        self._tracked: dict[str, int] = {}  # epochs of trials whose folders are read no more
        self._lost: dict[str, int] = {}  # epochs that failed trials do not train
        cluster = trials[0].recipe.cluster
        self._workers = cluster.num_workers
        self._shortage = Shortage(session, cluster.fewest_workers)
        self._total = self._most_epochs()
        self.progress = ProgressBar(session.console, "sweep", self._total, "epochs", "")
        self._running: Mapping[str, int] = {}
        self._begun, self._behind = frozenset[str](), frozenset[str]()
        self._ends = math.inf

    def expect(self, epochs: Mapping[str, int], ends: float, behind: Collection[str] = ()) -> None:
        """From now on the trials of these keys run, to so many epochs each, and those `behind` no further; all are
        stopped when the clock `ends`."""
        self._total = self._most_epochs()
        self._running, self._ends = epochs, ends
        self._begun, self._behind = self._begun | epochs.keys(), frozenset(behind)

    def _most_epochs(self) -> int:
        """Those that are trained and those that are left, as far as it is known which trials go on."""
        trained = sum(len(spec.read_epochs(trial.folder)) for trial in self._trials)
        return trained + sum(map(sum, epochs_left(self._trials, self._stoppable)))

    def poll(self) -> None:
        """Report what is on disk now, and a cluster without room. Of trials that have ended nothing is read again: a
        poll comes every second, and a sweep may have thousands of folders."""
        self._session.store.poll_if_due([trial.folder for trial in self._trials])
        self._shortage.poll()
        running = self._running  # the main thread replaces it between rungs
        begun = {path.name for path in self._trials[0].folder.parent.glob("*")}
        trials = [trial for trial in self._trials if trial.key in begun and trial.key not in self._tracked]
        # before the epochs are read: of a trial that has ended, all of them are on disk by then
        ended = {trial.key for trial in trials if (trial.folder / MANIFEST).is_file()}
        epochs = {trial.key: spec.read_epochs(trial.folder) for trial in trials}
        done = sum(self._tracked.values()) + sum(map(len, epochs.values()))
        going = [trial for trial in trials if trial.key in running and trial.key not in ended]
        left = {trial.key: max(0, running[trial.key] - len(epochs[trial.key])) for trial in going}
        ran = [trial for trial in trials if trial.key in self._begun - ended]
        failed = {trial.key for trial in ran if (trial.folder / spec.FAILURE).is_file()}
        self._lost |= {key: number if key in failed else 0 for key, number in left.items()}  # it may be tried again
        working = sum(number > 0 for key, number in left.items() if key not in failed)
        self._show(done, len(self._tracked) + len(ended), working)
        for trial in (trial for trial in trials if epochs[trial.key] or trial.key in failed):
            over = {"finished": ended, "failed": failed, "stopped": self._behind}
            self._track(trial, epochs[trial.key], {status for status, keys in over.items() if trial.key in keys})

    def _show(self, done: int, ended: int, begun: int) -> None:
        running = number_running(self._session, begun, self._workers)
        self.progress.update(
            done,
            f"{ended}/{len(self._trials)} trials",
            first_epoch(self._session, self._trials[0].recipe, "finetune", running),
            running or 1,
            self._total - sum(self._lost.values()),
            self._ends - time.monotonic(),
        )

    def _track(self, trial: Trial, epochs: list[dict[str, float]], over: Collection[str]) -> None:
        """Log its row where it is over with one of these statuses, else its epochs."""
        run, row = self._session.run, self._rows.row(trial) if over else {"status": ""}
        if row["status"] not in over:
            run.track_epochs(trial.key, trial.name, trial.params(), epochs)
            return
        run.track_trial(row, epochs)
        if row["status"] != "failed":  # it may be tried again
            self._tracked[trial.key] = len(epochs)
