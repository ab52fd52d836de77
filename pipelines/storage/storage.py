"""A storage as the driver holds it, and finding finished work there."""

import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

from pipelines.storage.transfer import read_manifest
from proser_core.digests import digest_of
from proser_core.jobs.spec import Job
from proser_core.store.files import write_atomically
from proser_core.store.lock import IDENTITY
from proser_core.store.store import MANIFEST, Artefact, Store, load_if_complete


class Storage(Store):
    """A store in a folder that all machines see: what workers write is here already. A Mirror brings it."""

    is_taken_over = False
    """Whether another command has taken over the storage, whose lock this one could not renew."""

    @property
    def title(self) -> str:
        """The storage as its user names it."""
        return str(self.root)

    @property
    def uri(self) -> str:
        """The place that all machines reach."""
        return self.root.as_uri()

    @property
    def address(self) -> dict[str, str] | None:
        """What a worker needs to reach the storage, as plain values; None where it sees the folder."""
        return None

    def identity(self) -> str:
        """A name that no other storage has, made at its first use, while this process holds it."""
        return name_in(self.root / IDENTITY)

    def sync(self, folders: Iterable[Path]) -> None:
        """Before folders are looked for: bring those that are finished elsewhere."""

    def poll(self, folders: Sequence[Path]) -> None:
        """Before trainings are looked at: bring what they have reported."""

    def poll_if_due(self, folders: Sequence[Path]) -> None:
        """The same every second while they run; what a storage is asked is bounded."""

    def begin(self, jobs: Sequence[Job]) -> list[Job]:
        """Before workers of any machine train: the jobs with what they need where all can take it."""
        return list(jobs)

    def train_here(self, folders: Iterable[Path]) -> None:
        """Before this process trains: take the folders, which are then newer here than elsewhere."""

    def push(self, folder: Path) -> None:
        """Upload a finished folder."""

    def has_file(self, path: Path) -> bool:
        """Whether a file of a training is on the storage."""
        return path.is_file()

    def manifests(self, stage: Path) -> dict[Path, bytes | None]:
        """The manifests of a stage on the storage, by the folders of this machine that they are of."""
        return _manifests(stage)


def name_in(path: Path) -> str:
    """The random name in a file, made where there is none."""
    if not path.is_file():
        write_atomically(path, uuid.uuid4().hex.encode())
    return path.read_text(encoding="utf-8")


def find_artefact(store: Storage | None, folder: Path) -> Artefact | None:
    """The finished artefact in a folder, brought here where it is finished elsewhere; None without one. `store` may be
    None for a folder that is only read."""
    if store is not None:
        store.sync([folder])
    return load_if_complete(folder)


def find_content(store: Storage | None, stage: Path, digest: str) -> Artefact | None:
    """The artefact of a stage whose files have this digest; None without one. Of the others only manifests are read.
    `store` as for `find_artefact`."""
    manifests = _manifests(stage) if store is None else store.manifests(stage)
    read = {folder: read_manifest(content) for folder, content in sorted(manifests.items())}
    same = [folder for folder, manifest in read.items() if manifest and digest_of(manifest.files) == digest]
    return next(filter(None, (find_artefact(store, folder) for folder in same)), None)


def _manifests(stage: Path) -> dict[Path, bytes | None]:
    return {path.parent: path.read_bytes() for path in stage.glob(f"*/{MANIFEST}")}
