"""A folder of jobs, FOLDER/*/JOB.json: one after the other in this process, or several at a time in processes of their
own."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from proser_core.digests import sha256_of
from proser_core.errors import ConfigError, TrainingError
from proser_core.jobs.job_file import JobFile, read_job_file
from proser_core.jobs.progress import EpochProgress
from proser_core.jobs.runner import JOB_FILE
from proser_core.jobs.spec import EPOCHS, PRETRAIN, TRIALS, read_epochs

OUT, FINISHED, LOG = "OUT", "finished", "log.txt"
"""Next to a job of a folder: where its outcome lies, and in it the digest of the job that finished; and what a process
of its own has printed."""
POLL_SECONDS = 0.5


def run_folder(folder: Path, at_once: int, run: Callable[[JobFile, Path], int]) -> int:
    """Run what has not finished without a failure; `run` is for a job in this process. The exit code: 1 where one
    failed, which does not stop the others.

    Raises ConfigError, before any training, for a file that cannot be run.
    """
    paths = sorted(folder.glob(f"*/{JOB_FILE}"))
    if not paths:
        raise ConfigError(f"{folder} has no */{JOB_FILE}; need what `proser reproduce --jobs` writes, or a {JOB_FILE}")
    jobs = {path: read_job_file(path) for path in paths}
    titles = {path: f"[{number}/{len(paths)}] {path}" for number, path in enumerate(paths, start=1)}
    for path in paths:
        if _has_finished(path):
            print(f"{titles.pop(path)}: finished")
    if at_once > 1 and len(titles) > 1:
        return _run_side_by_side(jobs, titles, at_once)
    failed = 0
    for path, title in titles.items():
        print(title, flush=True)
        try:
            code = run(jobs[path], path.parent / OUT)
        except TrainingError as error:
            print(f"failed: {error}", file=sys.stderr)
            code = 1
        failed += _note(path, code)
    return 1 if failed else 0


def _run_side_by_side(jobs: Mapping[Path, JobFile], titles: Mapping[Path, str], at_once: int) -> int:
    """Processes end with this one; what they have trained is kept, as of any that is stopped."""
    failed, waiting, running = 0, list(titles), dict[Path, subprocess.Popen[bytes]]()
    progress, done = EpochProgress(sys.stderr), _epochs_trained(titles)
    total = sum(_epochs(jobs[path]) for path in titles)
    progress.expect("job", total)
    progress.begin(f"{len(titles)} jobs, {min(at_once, len(titles))} at a time", "job", total, done)
    with ExitStack() as processes:
        processes.callback(progress.close)
        while waiting or running:
            while waiting and len(running) < at_once:
                path = waiting.pop(0)
                running[path] = processes.enter_context(_started(path))
                processes.callback(running[path].terminate)
            time.sleep(POLL_SECONDS)
            for _ in range(_epochs_trained(titles) - done):
                done += 1
                progress.epoch({})
            for path in [path for path, process in running.items() if process.poll() is not None]:
                code = running.pop(path).returncode
                failed += _note(path, code)
                progress.say(f"{titles[path]}: {f'failed, see {path.parent / LOG}' if code else 'done'}")
    return 1 if failed else 0


def _started(path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "proser_core.job", str(path), str(path.parent / OUT)]
    with (path.parent / LOG).open("w", encoding="utf-8") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def _epochs(job: JobFile) -> int:
    """Of the pretraining and the fine-tunes; how many networks of methods' own need is not known here."""
    return job.recipe.pretrain.epochs + sum(tuned.epochs for tuned in dict.fromkeys(job.finetunes))


def _epochs_trained(paths: Mapping[Path, str]) -> int:
    files = [
        each for path in paths for kind in (PRETRAIN, TRIALS) for each in (path.parent / OUT / kind).glob(f"*/{EPOCHS}")
    ]
    return sum(len(read_epochs(each.parent)) for each in files)


def _has_finished(path: Path) -> bool:
    finished = path.parent / OUT / FINISHED
    return finished.is_file() and finished.read_text(encoding="utf-8") == sha256_of(path)


def _note(path: Path, code: int) -> bool:
    """Record a job that ended without a failure; whether this one failed."""
    if code == 0:
        (path.parent / OUT / FINISHED).write_text(sha256_of(path), encoding="utf-8")
    return code != 0
