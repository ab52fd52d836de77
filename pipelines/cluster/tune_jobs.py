"""Trainings side by side through Ray Tune. Those that the machine has no memory for begin again, fewer at a time."""

import functools
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ray import tune

from pipelines.cluster.attempts import MEMORY_PAUSE_S, RETRIES, failure_reason, is_low_memory, unreported_exit
from pipelines.cluster.ray_internals import last_error, silent_progress
from pipelines.cluster.train_worker import CROWDED, FULL_DISK, Workers, run_distributed_trial, run_single_trial
from pipelines.console import warn
from pipelines.storage.storage import Storage
from pipelines.storage.training_folder import training_folder
from proser_core.errors import StorageError
from proser_core.jobs.own_networks.spec import job_of
from proser_core.jobs.spec import Job, read_failure
from proser_core.store.store import load_if_complete
from proser_core.titles import counted


@dataclass(frozen=True)
class TuneJobs:
    """How trainings run: `workers` each, of which each takes `resources`; a training of several has a light driver that
    takes `driver_resources`. Ray writes to `folder`/`name`. `titles` name trainings for people, by their folders'
    names."""

    workers: Workers
    resources: dict[str, float]
    driver_resources: dict[str, float]
    folder: Path
    name: str
    store: Storage
    titles: Mapping[str, str]

    def run(self, jobs: Sequence[Job], at_a_time: int, max_seconds: float, retries: int = RETRIES) -> None:
        """Run them for at most `max_seconds` (0: no limit); the reason of one that fails is in its folder, and one that
        ends before without an outcome has failed. Those whose machine was low on memory begin again, half as many at a
        time, the first one last; where it was one at a time already, up to `retries` times. Raises StorageError where
        the disk is full."""
        began = time.monotonic()
        crowded = self._run_once(jobs, at_a_time, max_seconds)
        left = max_seconds - (time.monotonic() - began) if max_seconds else 0.0
        if max_seconds and left <= 0:  # whatever has no outcome was stopped
            return
        silent = self._unfinished(jobs, "").keys() - crowded.keys()
        if silent:
            self._fail(jobs, dict.fromkeys(silent, unreported_exit()))
        if at_a_time == 1:
            retries -= 1
        if crowded and retries >= 0:
            time.sleep(MEMORY_PAUSE_S)
            again = [job for job in jobs if Path(job.folder).name in crowded]
            fewer = max(1, at_a_time // 2)
            warn(f"a machine is low on memory; starting {counted(len(again), 'training')} again, {fewer} at a time")
            self.run([*again[1:], again[0]], fewer, left, retries)  # alone, only the first has had the memory
        else:
            self._fail(jobs, crowded)

    def _run_once(self, jobs: Sequence[Job], at_a_time: int, max_seconds: float) -> dict[str, str]:
        """Reasons of the trainings that the machine had no memory for, by the names of their folders."""
        place = self.folder / self.name
        shutil.rmtree(place, ignore_errors=True)  # of a killed run
        try:
            results = list(self._tuner(jobs, at_a_time, max_seconds).fit())
        except RuntimeError as error:
            if not is_low_memory(error):
                raise
            return self._unfinished(jobs, failure_reason(error))
        finally:
            shutil.rmtree(place, ignore_errors=True)  # the storage itself records what is finished
        return self._crowded(results, jobs, may_wait=at_a_time > 1)

    def _tuner(self, jobs: Sequence[Job], at_a_time: int, max_seconds: float) -> tune.Tuner:
        """One worker is a reused actor; several are a light driver that starts a TorchTrainer."""
        trainable: Callable[[dict[str, Any]], None] = run_single_trial
        resources = self.resources
        if self.workers != 1:
            shared: dict[str, Any] = {"num_workers": self.workers, "resources": resources, "storage": self.folder}
            trainable, resources = functools.partial(run_distributed_trial, **shared), self.driver_resources
        return tune.Tuner(
            tune.with_resources(_with_job_as_text(trainable), resources),
            param_space={
                # as text: for each trial Tune copies the whole grid, value by value
                "job": tune.grid_search([json.dumps(job.to_json()) for job in jobs]),
                "storage": self.store.address,
            },
            tune_config=tune.TuneConfig(
                max_concurrent_trials=at_a_time,
                reuse_actors=self.workers == 1,
                trial_dirname_creator=lambda trial: Path(json.loads(trial.config["job"])["folder"]).name,
                time_budget_s=max_seconds or None,
            ),
            run_config=tune.RunConfig(
                name=self.name,
                storage_path=str(self.folder),
                verbose=0,
                callbacks=[*silent_progress(), _Failures(self.titles)],
                failure_config=tune.FailureConfig(max_failures=RETRIES),
            ),
        )

    def _unfinished(self, jobs: Sequence[Job], reason: str) -> dict[str, str]:
        """Trainings that neither finished, paused nor failed, each with the reason. Ray 2.60's Tune gives up all of
        them where Ray's memory monitor ends one in mid-training."""
        folders = {Path(job.folder): job for job in jobs}
        self.store.poll(list(folders))
        return {
            folder.name: reason
            for folder, job in folders.items()
            if not (load_if_complete(folder) or read_failure(folder) or job.is_paused)
        }

    def _crowded(self, results: Sequence[tune.Result], jobs: Sequence[Job], may_wait: bool) -> dict[str, str]:
        """Trainings for which the machine had no memory, with the reason, if they may wait for it; the reason of any
        other failure is written into its folder. Raises StorageError where the disk is full."""
        crowded, failed = dict[str, str](), dict[str, str]()
        for result in results:
            reported = result.metrics or {}
            # by its folder: a trial that failed before its first report has no config in its result
            name = Path(result.path).name
            if FULL_DISK in reported:
                raise StorageError(reported[FULL_DISK])
            if CROWDED not in reported and result.error is None:
                continue
            is_crowded = CROWDED in reported or is_low_memory(result.error)
            reasons = crowded if is_crowded and may_wait else failed
            reasons[name] = reported.get(CROWDED) or failure_reason(result.error)
        self._fail(jobs, failed)
        return crowded

    def _fail(self, jobs: Sequence[Job], reasons: dict[str, str]) -> None:
        for job in jobs:
            if reason := reasons.get(Path(job.folder).name):
                training_folder(job, self.store.address).write_failure(reason)


class _Failures(tune.Callback):
    """Says which training lost a worker, and that it goes on; records why one failed as soon as it has."""

    def __init__(self, titles: Mapping[str, str]) -> None:
        self._titles = titles

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called by Tune where it attempts a trial again. A machine that was announced to go away is no failure."""
        title = self._titles.get(Path(json.loads(trial.config["job"])["folder"]).name, "a training")
        times = f" ({trial.num_failures} of at most {RETRIES} times)" if trial.num_failures else ""
        warn(f"the worker of {title} was lost or failed{times}; it continues from its last epoch")

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """Called by Tune where it attempts a trial no more; one for which there was no memory may begin again."""
        error = last_error(trial)
        if error is None or is_low_memory(error):
            return
        with suppress(StorageError):  # it is recorded at the end
            folder = training_folder(job_of(json.loads(trial.config["job"])), trial.config["storage"])
            folder.write_failure(failure_reason(error))


def _with_job_as_text(trainable: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def trial(config: dict[str, Any]) -> None:
        trainable({**config, "job": json.loads(config["job"])})

    return trial
