"""The worker's side: the folder in which a training runs on a machine, and how its files get to the storage."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from pipelines.storage.mirror import NODE, USER_FILES, mirror_folder, with_files
from pipelines.storage.objects import Objects, storage_errors
from pipelines.storage.transfer import download, fetch, pull, push, read_if_exists
from proser_core.errors import ProserError
from proser_core.jobs.spec import DEVELOPMENT_SCORES, EPOCHS, FAILURE, STATE, Job, read_failure, write_failure
from proser_core.jobs.starting_point import delete_changed_checkpoint
from proser_core.learning.ranks import current_world
from proser_core.store.lock import LOCK
from proser_core.store.store import MANIFEST


class TrainingFolder:
    """A training's folder on a storage that all machines see: the folder that the job names."""

    ray_folder: Path | None = None
    """A folder of this machine for what Ray writes while it trains; None where the storage serves."""

    def __init__(self, job: Job) -> None:
        self._job, self.path = job, Path(job.folder)

    @contextmanager
    def localised_job(self) -> Iterator[Job]:
        """The job with paths of this machine, and all that it needs there; every process of the job calls it."""
        yield self._job

    def publish(self) -> None:
        """Upload an epoch that is on this machine's disk, before it is reported."""

    def write_failure(self, reason: str) -> None:
        """Record why a training ended that could not do so itself; a reason that is there stays."""
        if not read_failure(self.path):
            write_failure(self.path, reason)


class MirroredTrainingFolder(TrainingFolder):
    """A training's folder on a storage behind a URI: what the job needs is downloaded, and what it writes uploaded.

    The paths of the job are in `store`, the driver's folder, which need not exist on this machine. Where the network
    fails a worker, pyarrow's OSError reaches Ray, which attempts the training again.
    """

    def __init__(self, job: Job, uri: str, store: Path) -> None:
        super().__init__(job)
        self._objects, self._store, self._own = Objects.from_uri(uri), store, mirror_folder(uri) / NODE
        self.ray_folder = self._own / "ray"
        self._name = self._name_of(job.folder)
        self.path = self._own / self._name

    @contextmanager
    def localised_job(self) -> Iterator[Job]:
        """The job on this machine, with what it needs downloaded; it resumes from what was reported before."""
        with _machine_lock(self.path):
            self._download_training()
        job = replace(self._job, folder=str(self.path), task=self._local(self._job.task))
        job = with_files(job, self._local)
        try:
            yield job
            self._upload_outcome(MANIFEST)
        except ProserError:
            self._upload_outcome(FAILURE)
            raise
        finally:
            if _is_rank_zero():
                for path in self.path.iterdir():  # whatever was reported is on the storage
                    if path.name != LOCK:
                        path.unlink(missing_ok=True)

    def publish(self) -> None:
        """Upload an epoch before it is reported; the checkpoint last, as on disk."""
        if _is_rank_zero():
            for file in (EPOCHS, DEVELOPMENT_SCORES, STATE):
                if (self.path / file).is_file():
                    self._objects.upload(self.path / file, f"{self._name}/{file}")

    def write_failure(self, reason: str) -> None:
        """Record on the storage why a training ended; a reason that is there stays. Raises StorageError where it does
        not answer."""
        with storage_errors(self._objects):
            if self._objects.stamp(f"{self._name}/{FAILURE}") is None:
                self._objects.write(f"{self._name}/{FAILURE}", reason.encode(errors="backslashreplace"))

    def _upload_outcome(self, file: str) -> None:
        """Upload a finished folder, or the reason of a failure."""
        if not _is_rank_zero() or not (self.path / file).is_file():
            return
        if file == MANIFEST:
            push(self._objects, self.path, self._name)
        else:
            self._objects.upload(self.path / file, f"{self._name}/{file}")

    def _download_training(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        if not pull(self._objects, self._name, self.path):
            (self.path / MANIFEST).unlink(missing_ok=True)
            for file in (EPOCHS, DEVELOPMENT_SCORES, STATE):
                download(self._objects, f"{self._name}/{file}", self.path / file)
            delete_changed_checkpoint(self.path)  # on each machine, so that all ranks begin at the same epoch

    def _local(self, path: str) -> str:
        """A finished folder, a file in it, or a user's own file: the driver's where this machine has it complete, else
        a copy that all workers of this machine share."""
        if not path:
            return ""
        stage, key, *inside = self._name_of(path).split("/")
        name, mine = f"{stage}/{key}", self._own / stage / key
        if stage == USER_FILES:
            with _machine_lock(mine):
                found = fetch(self._objects, name, mine, Path(key).stem)
            if not found:
                self._objects.delete(name)  # else the next command takes it for uploaded
        else:
            manifest = self._objects.read(f"{name}/{MANIFEST}")
            with suppress(PermissionError):  # of a driver that runs as another user
                if manifest is not None and read_if_exists(self._store / name / MANIFEST) == manifest:
                    return path
            with _machine_lock(mine):
                found = pull(self._objects, name, mine)  # of files that are here a process reads each once
        if not found:
            raise OSError(f"{name} is incomplete on {self._objects.uri}; the same command uploads it again")
        return str(mine.joinpath(*inside))

    def _name_of(self, path: str) -> str:
        return Path(path).relative_to(self._store).as_posix()


def _is_rank_zero() -> bool:
    """Whether this is the process of the job that writes."""
    return current_world()[0] == 0


@contextmanager
def _machine_lock(path: Path) -> Iterator[None]:
    """Hold the lock of `path` among all processes of this machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def training_folder(job: Job, address: dict[str, str] | None) -> TrainingFolder:
    """The folder of a job on the storage with this `Storage.address`."""
    if address is None:
        return TrainingFolder(job)
    return MirroredTrainingFolder(job, address["uri"], Path(address["store"]))
