"""A folder of jobs, FOLDER/*/JOB.json: one after the other in this process, or several at a time in processes of their
own."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from proser_core.config import decisive_network
from proser_core.digests import digest_of, sha256_of
from proser_core.errors import ConfigError, ProserError, TrainingError
from proser_core.jobs.job_file import JobFile, read_job_file
from proser_core.jobs.preparing import prepare_inputs
from proser_core.jobs.progress import EpochProgress
from proser_core.jobs.runner import JOB_FILE
from proser_core.jobs.spec import EPOCHS, PRETRAIN, TRIALS, read_epochs
from proser_core.store.store import MANIFEST

OUT, FINISHED, LOG = "OUT", "finished", "log.txt"
"""Next to a job of a folder: where its outcome lies, and in it the digest of what has finished; and what a process of
its own has printed."""
POLL_SECONDS = 0.5
Ended = Callable[[Path, int], None]  # told of the exit code of each job


def run_folder(folder: Path, at_once: int, run: Callable[[JobFile, Path], int]) -> int:
    """Run what has not finished without a failure, by `run` in this process or, with `at_once` above 1, in others.

    The exit code: 2 where another process refused its job, 1 where a training failed; neither stops the other jobs.
    Raises ConfigError, before any training, for a file that cannot be run. In this process a job that is refused
    raises too, and ends the run.
    """
    if (folder / JOB_FILE).is_file():
        raise ConfigError(
            f"{folder} holds one job, not several; give its {folder / JOB_FILE} and a folder for its outcome"
        )
    paths = sorted(folder.glob(f"*/{JOB_FILE}"))
    if not paths:
        raise ConfigError(f"{folder} has no */{JOB_FILE}; need what `proser reproduce --jobs` writes, or a {JOB_FILE}")
    written = {path: sha256_of(path) for path in paths}  # before they are read: one that is edited meanwhile runs again
    jobs = {path: read_job_file(path) for path in paths}
    digests = {path: _digest(written[path], job) for path, job in jobs.items()}
    titles = {path: f"[{number}/{len(paths)}] {path}" for number, path in enumerate(paths, start=1)}
    for path in paths:
        if _has_finished(path, digests[path]):
            print(f"{titles.pop(path)}: finished")
    codes = []

    def ended(path: Path, code: int) -> None:
        codes.append(code)
        if code == 0:
            (path.parent / OUT / FINISHED).write_text(digests[path], encoding="utf-8")

    if at_once > 1 and titles:
        _run_side_by_side(jobs, titles, at_once, ended)
    else:
        _run_in_turn(jobs, titles, run, ended)
    return 2 if 2 in codes else int(any(codes))


def _run_in_turn(
    jobs: Mapping[Path, JobFile], titles: Mapping[Path, str], run: Callable[[JobFile, Path], int], ended: Ended
) -> None:
    for path, title in titles.items():
        print(title, flush=True)
        try:
            code = run(jobs[path], path.parent / OUT)
        except TrainingError as error:
            print(f"failed: {error}", file=sys.stderr)
            code = 1
        ended(path, code)


def _run_side_by_side(jobs: Mapping[Path, JobFile], titles: Mapping[Path, str], at_once: int, ended: Ended) -> None:
    """Each in a process of its own, which ends where this one is stopped, unless it is killed."""
    waiting, running = list(titles), dict[Path, subprocess.Popen[bytes]]()
    progress, before, done = EpochProgress(sys.stderr), _epochs_trained(titles), 0
    most = sum(
        jobs[path].recipe.pretrain.epochs + jobs[path].finetune_epochs for path in titles
    )  # without own networks
    progress.expect("job", most)
    progress.begin(f"{len(titles)} jobs, {min(at_once, len(titles))} at a time", "job", most, min(before, most))
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                path = waiting.pop(0)
                running[path] = _started(path)
            time.sleep(POLL_SECONDS)
            for _ in range(_epochs_trained(titles) - before - done):
                done += 1
                progress.epoch({}, side_by_side=at_once)
            for path in [path for path, process in running.items() if process.poll() is not None]:
                code = running.pop(path).returncode
                progress.say(f"{titles[path]}: {f'failed, see {path.parent / LOG}' if code else 'done'}")
                ended(path, code)
    finally:  # terminate all, then wait: none trains on while another one ends
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
        progress.close()


def _started(path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "proser_core.job", str(path), str(path.parent / OUT)]
    with (path.parent / LOG).open("a", encoding="utf-8") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)


def _epochs_trained(paths: Iterable[Path]) -> int:
    files = [
        each for path in paths for kind in (PRETRAIN, TRIALS) for each in (path.parent / OUT / kind).glob(f"*/{EPOCHS}")
    ]
    trained = 0
    for each in files:
        with suppress(FileNotFoundError):  # a training that begins again deletes it
            trained += len(read_epochs(each.parent))
    return trained


def _digest(written: str, job: JobFile) -> str:
    """What decides the outcome of a job: its file as written, the weights and the code, and then, after a blank, the
    images, or nothing where they are gone."""
    network, code = decisive_network(job.recipe.network), job.code
    images = ""
    with suppress(OSError, ProserError):  # a job that has not finished says itself which images are missing
        images = digest_of(sha256_of(job.task / MANIFEST) if job.task else prepare_inputs(job.recipe, job.data_dir))
    return f"{digest_of(written, network, code.prepare, code.train, code.own)} {images}"


def _has_finished(path: Path, digest: str) -> bool:
    finished = path.parent / OUT / FINISHED
    return finished.is_file() and finished.read_text(encoding="utf-8").startswith(digest)
