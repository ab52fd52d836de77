"""The driver's side: a store in a folder of this machine, in step with a storage behind a URI."""

import functools
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipelines.storage.lease import alone_at
from pipelines.storage.objects import Objects, Stamp, answering, checked
from pipelines.storage.transfer import bring, pull, push, read_manifest
from proser_core.digests import sha256_of
from proser_core.jobs.spec import EPOCHS, FAILURE, SCORES, Job
from proser_core.store.files import write_atomically
from proser_core.store.lock import alone_in
from proser_core.store.store import MANIFEST, Artefact, Built, Store, find

MIRROR_VARIABLE = "PROSER_MIRROR"
"""Variable with the folder of a machine's mirrors, in the place of ~/.cache/proser."""
STORE, NODE = "storage", "node"
"""Parts of a mirror: the driver's store, and what the workers of a machine train from and into."""
USER_FILES = "files"
"""Stage of a storage with files that a user brought, under names from their content."""
AT_ONCE = 8  # folders that are moved at a time
LOOK_EVERY = 5.0  # seconds at least between two looks at running trainings; 9 of 10 seconds are for other things


def mirror_folder(uri: str) -> Path:
    """Where this machine keeps its mirror of a storage."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "proser"
    base = Path(os.environ.get(MIRROR_VARIABLE) or cache).expanduser().resolve()
    return base / hashlib.sha256(uri.rstrip("/").encode()).hexdigest()[:16]


@dataclass
class Mirror:
    """Folders below `root` and the same ones on the storage; what both have is told by the manifests.

    Methods raise RemoteError where the storage does not answer any more.
    """

    objects: Objects
    root: Path
    tell: Callable[[str], None] = lambda text: None
    _in_step: set[str] = field(default_factory=set)
    _seen: dict[str, Stamp] = field(default_factory=dict)
    _carried_files: dict[str, str] = field(default_factory=dict)
    _next_look: float = 0.0

    @property
    def address(self) -> dict[str, str]:
        """What a worker must know of the storage, as plain values."""
        return {"uri": self.objects.uri, "store": str(self.root)}

    def name(self, path: Path) -> str:
        """What a path of the mirror is called on the storage."""
        return path.relative_to(self.root).as_posix()

    def agree(self, folders: Iterable[Path]) -> None:
        """Bring what is finished there and not here, and put there what is finished here alone.

        Folders that a finished one links to come with it.
        """
        waiting = list(folders)
        with answering(self.objects), ThreadPoolExecutor(AT_ONCE) as pool:
            while waiting:
                linked = pool.map(functools.partial(self._agree, self._listing(waiting)), waiting)
                waiting = [path for paths in linked for path in paths]

    def _agree(self, there: Mapping[str, Stamp], folder: Path) -> list[Path]:
        name = self.name(folder)
        if name in self._in_step:
            return []
        listed = read_manifest(self.objects.read(f"{name}/{MANIFEST}")) if f"{name}/{MANIFEST}" in there else None
        if listed is None:
            if find(folder) is not None:
                self._push(folder)
            return []
        if not pull(self.objects, name, folder):
            self.tell(f"  {name} on the storage is incomplete or was changed; it is made again")
            return []
        self._in_step.add(name)
        linked = [(folder / path).resolve() for path in listed["linked"]]
        return [path for path in linked if path.is_relative_to(self.root)]

    def push(self, folder: Path) -> None:
        """Put a finished folder on the storage."""
        with answering(self.objects):
            self._push(folder)

    def _push(self, folder: Path) -> None:
        push(self.objects, folder, self.name(folder))
        self._in_step.add(self.name(folder))

    def begin(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs as workers of any machine can take them: user's own files lie on the storage.

        What earlier attempts said of their outcome is removed there; their checkpoints stay.
        """
        with answering(self.objects):
            there = self._listing([Path(job.folder) for job in jobs])
            for job in jobs:
                name = self.name(Path(job.folder))
                self._in_step.discard(name)
                for file in (MANIFEST, FAILURE):
                    if f"{name}/{file}" in there:
                        self.objects.delete(f"{name}/{file}")
            return [self._carried(job) for job in jobs]

    def _carried(self, job: Job) -> Job:
        network = job.recipe["network"]
        network = {**network, "weights_file": self._carry(network["weights_file"])}
        return replace(job, weights=self._carry(job.weights), recipe={**job.recipe, "network": network})

    def _carry(self, path: str) -> str:
        """The place in the mirror that a user's file stands for, once the storage has it."""
        if not path or Path(path).is_relative_to(self.root):
            return path
        if path not in self._carried_files:
            name = f"{USER_FILES}/{sha256_of(Path(path))[:16]}{Path(path).suffix}"
            if self.objects.stamp(name) is None:
                self.objects.upload(Path(path), name)
            self._carried_files[path] = str(self.root / name)
        return self._carried_files[path]

    def watch(self, folders: Sequence[Path]) -> None:
        """Look at running trainings, but not all the time."""
        started = time.monotonic()
        if started >= self._next_look:
            self.look(folders)
            ended = time.monotonic()
            self._next_look = ended + max(LOOK_EVERY, 9 * (ended - started))

    def look(self, folders: Sequence[Path]) -> None:
        """Bring what trainings have reported, and the outcome of those that have ended."""
        with answering(self.objects), ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(functools.partial(self._look, self._listing(folders)), folders))

    def _look(self, there: Mapping[str, Stamp], folder: Path) -> None:
        name = self.name(folder)
        if name in self._in_step:
            return
        for file in (EPOCHS, SCORES, FAILURE):
            stamp = there.get(f"{name}/{file}")
            if stamp is None:
                (folder / file).unlink(missing_ok=True)
            elif stamp != self._seen.get(f"{name}/{file}"):
                bring(self.objects, f"{name}/{file}", folder / file)
                self._seen[f"{name}/{file}"] = stamp
        if f"{name}/{MANIFEST}" in there and pull(self.objects, name, folder):
            self._in_step.add(name)

    def holds(self, path: Path) -> bool:
        """Whether the storage has a file."""
        with answering(self.objects):
            return self.objects.stamp(self.name(path)) is not None

    def _listing(self, folders: Iterable[Path]) -> dict[str, Stamp]:
        stages = sorted({self.name(folder.parent) for folder in folders})
        return {name: stamp for stage in stages for name, stamp in self.objects.listing(stage).items()}


@dataclass
class MirroredStore(Store):
    """A store whose artefacts are on the storage behind a URI too."""

    mirror: Mirror = field(kw_only=True)

    def run(
        self, stage: str, inputs: Mapping[str, Any], build: Callable[[Path], Built | None], made_on: str = ""
    ) -> Artefact:
        """As of a Store; found on the storage too, and put there."""
        folder = self.folder(stage, inputs)
        self.mirror.agree([folder])
        artefact = super().run(stage, inputs, build, made_on)
        self.mirror.push(folder)
        return artefact


@contextmanager
def mirrored(uri: str, work: str, announce: Callable[[str], None], tell: Callable[[str], None]) -> Iterator[Store]:
    """The storage behind a URI, held for this work alone.

    Raises ConfigError where it cannot be used, or where another run works there.
    """
    objects, folder = checked(uri), mirror_folder(uri)
    store = MirroredStore(folder / STORE, announce=announce, mirror=Mirror(objects, folder / STORE, tell))
    with alone_in(store.root, work), alone_at(objects, _identity(folder), work, tell):
        yield store


def _identity(folder: Path) -> str:
    """A name of this mirror that no other one has."""
    path = folder / "identity"
    if not path.is_file():
        write_atomically(path, uuid.uuid4().hex.encode())
    return path.read_text()


def mirror_of(store: Store) -> Mirror | None:
    """What keeps a store in step; None for a folder that all machines see."""
    return store.mirror if isinstance(store, MirroredStore) else None


def agree(store: Store, folders: Iterable[Path]) -> None:
    """Before folders are looked for: bring what only the storage has."""
    mirror = mirror_of(store)
    if mirror is not None:
        mirror.agree(folders)


def watch(store: Store, folders: Sequence[Path]) -> None:
    """While trainings run: bring what they have reported."""
    mirror = mirror_of(store)
    if mirror is not None:
        mirror.watch(folders)


def holds(store: Store, path: Path) -> bool:
    """Whether a file of a training is on the storage."""
    mirror = mirror_of(store)
    return path.is_file() if mirror is None else mirror.holds(path)


def named_by(store: Store) -> str:
    """What gives the store another folder of this machine."""
    return "--storage" if mirror_of(store) is None else MIRROR_VARIABLE


def shown(store: Store) -> str:
    """The storage as its user names it."""
    mirror = mirror_of(store)
    return str(store.root) if mirror is None else mirror.objects.uri
