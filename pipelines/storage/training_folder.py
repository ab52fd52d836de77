"""The worker's side: where a training happens on a machine, and how what it leaves gets to the storage."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.storage.mirror import NODE, USER_FILES, mirror_folder
from pipelines.storage.objects import Objects, answering
from pipelines.storage.transfer import bring, content_of, fetch, pull, push
from proser_core.errors import ProserError
from proser_core.jobs.spec import EPOCHS, FAILURE, SCORES, STATE, Job
from proser_core.store.files import write_atomically
from proser_core.store.lock import LOCK
from proser_core.store.store import MANIFEST


class Place:
    """A storage that all machines see: a training happens where its job says."""

    scratch: Path | None = None
    """A folder of this machine for what Ray writes while it trains; None where the storage serves."""

    def __init__(self, job: Job) -> None:
        self._job, self.folder = job, Path(job.folder)

    @contextmanager
    def at_hand(self) -> Iterator[Job]:
        """The job with paths of this machine, and all that it needs there; every process of the job calls it."""
        yield self._job

    def publish(self) -> None:
        """To be called when an epoch is on this machine's disk, before it is reported."""

    def reason(self) -> str | None:
        """Why the training failed, if it left that."""
        content = content_of(self.folder / FAILURE)
        return None if content is None else content.decode()

    def leave(self, reason: str) -> None:
        """Write down what ended a training that could not do so itself."""
        if self.reason() is None:
            with suppress(OSError):
                write_atomically(self.folder / FAILURE, reason.encode())


class MirroredPlace(Place):
    """A storage behind a URI: what the job needs is brought to this machine, and what it leaves is put there.

    The paths of the job are in `store`, the driver's folder, which this machine may have or not. Where the
    network fails a worker, pyarrow's OSError reaches Ray, which tries the training again.
    """

    def __init__(self, job: Job, uri: str, store: Path) -> None:
        super().__init__(job)
        self._objects, self._store, self._own = Objects.of(uri), store, mirror_folder(uri) / NODE
        self.scratch = self._own / "ray"
        self._name = self._name_of(job.folder)
        self.folder = self._own / self._name

    @contextmanager
    def at_hand(self) -> Iterator[Job]:
        """As of a Place; what was reported of the training before is what it goes on from."""
        with _one_at_a_time(self.folder):
            self._bring_training()
        job = self._here()
        try:
            yield job
            self._end(MANIFEST)
        except ProserError:
            self._end(FAILURE)
            raise
        finally:
            if _writes():
                _clear(self.folder)  # whatever was reported is on the storage

    def publish(self) -> None:
        """The checkpoint last, as on disk."""
        if _writes():
            for file in (EPOCHS, SCORES, STATE):
                if (self.folder / file).is_file():
                    self._objects.upload(self.folder / file, f"{self._name}/{file}")

    def reason(self) -> str | None:
        """As of a Place, on the storage. Raises RemoteError where that does not answer."""
        with answering(self._objects):
            content = self._objects.read(f"{self._name}/{FAILURE}")
        return None if content is None else content.decode()

    def leave(self, reason: str) -> None:
        """As of a Place, on the storage. Raises RemoteError where that does not answer."""
        if self.reason() is None:
            with answering(self._objects):
                self._objects.write(f"{self._name}/{FAILURE}", reason.encode())

    def _end(self, file: str) -> None:
        """Put the outcome there: a finished folder, or the message of what a user can mend."""
        if not _writes() or not (self.folder / file).is_file():
            return
        if file == MANIFEST:
            push(self._objects, self.folder, self._name)
        else:
            self._objects.upload(self.folder / file, f"{self._name}/{file}")

    def _bring_training(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not pull(self._objects, self._name, self.folder):
            (self.folder / MANIFEST).unlink(missing_ok=True)
            for file in (EPOCHS, SCORES, STATE):
                bring(self._objects, f"{self._name}/{file}", self.folder / file)

    def _here(self) -> Job:
        network = self._job.recipe["network"]
        network = {**network, "weights_file": self._brought(network["weights_file"])}
        return replace(
            self._job,
            folder=str(self.folder),
            task=self._brought(self._job.task),
            weights=self._brought(self._job.weights),
            recipe={**self._job.recipe, "network": network},
        )

    def _brought(self, path: str) -> str:
        """A finished folder, or a file in it, or a user's own file: the driver's where this machine has it whole,
        else a copy that all workers of this machine share."""
        if not path:
            return ""
        stage, key, *inside = self._name_of(path).split("/")
        name, mine = f"{stage}/{key}", self._own / stage / key
        if stage == USER_FILES:
            with _one_at_a_time(mine):
                found = fetch(self._objects, name, mine, Path(key).stem)
        else:
            manifest = self._objects.read(f"{name}/{MANIFEST}")
            if manifest is not None and content_of(self._store / name / MANIFEST) == manifest:
                return path
            with _one_at_a_time(mine):
                found = manifest is not None and (
                    content_of(mine / MANIFEST) == manifest or pull(self._objects, name, mine)
                )
        if not found:
            raise OSError(f"{name} is not whole on {self._objects.uri}; the same command again puts it there")
        return str(mine.joinpath(*inside))

    def _name_of(self, path: str) -> str:
        return Path(path).relative_to(self._store).as_posix()


def _writes() -> bool:
    """Whether this is the process of the job that writes."""
    from proser_core.learning.mixup import current_world  # with torch, which a driver that only refuses does not need

    return current_world()[0] == 0


def _clear(folder: Path) -> None:
    """Remove a training's files, but not the lock that its process holds."""
    for path in folder.iterdir():
        if path.name != LOCK:
            path.unlink(missing_ok=True)


@contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    """Hold a lock beside `path`, over all processes of this machine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def place_of(config: dict[str, Any]) -> Place:
    """Where a job that was handed out happens: `job`, and `storage`, the address of a mirror or None."""
    job, address = Job(**config["job"]), config.get("storage")
    return Place(job) if address is None else MirroredPlace(job, address["uri"], Path(address["store"]))
