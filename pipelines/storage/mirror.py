"""The driver's side of a storage behind a URI: its mirror on this machine."""

import functools
import hashlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipelines.storage.objects import Objects, Stamp, storage_errors
from pipelines.storage.storage import Storage
from pipelines.storage.transfer import download, pull, push, read_manifest
from proser_core.digests import sha256_of
from proser_core.jobs.own_networks.spec import OwnJob
from proser_core.jobs.spec import DEVELOPMENT_SCORES, EPOCHS, FAILURE, STATE, Job
from proser_core.store.files import cache_folder
from proser_core.store.lock import IDENTITY
from proser_core.store.store import MANIFEST, Artefact, BuildResult, Manifest, load_if_complete

MIRROR_VARIABLE = "PROSER_MIRROR"
"""Variable with the folder of a machine's mirrors, instead of ~/.cache/proser."""
STORE, NODE = "storage", "node"
"""Parts of a mirror: the driver's store, and the folder in which workers of the machine train."""
USER_FILES = "files"
"""Stage of a storage with a user's own files, under names from their content."""
TRANSFERS = 8  # folders at a time
POLL_EVERY_S = 5.0  # at least; a poll takes at most a tenth of the time


def mirror_folder(uri: str) -> Path:
    """Where this machine keeps its mirror of a storage."""
    base = Path(os.environ.get(MIRROR_VARIABLE) or cache_folder()).expanduser().resolve()
    return base / hashlib.sha256(uri.rstrip("/").encode()).hexdigest()[:16]


def with_files(job: Job, place: Callable[[str], str]) -> Job:
    """The job with `place` of the path of each of its weights files; a path is empty where the job has no such file."""
    network = job.recipe["network"]
    network = {**network, "weights_file": place(network["weights_file"])}
    job = replace(job, weights=place(job.weights), recipe={**job.recipe, "network": network})
    if isinstance(job, OwnJob):
        job = replace(job, parts={name: place(path) for name, path in job.parts.items()})
    return job


@dataclass
class Mirror(Storage):
    """A store in a folder of this machine whose folders are on an object store too, compared by their manifests.
    Methods raise StorageError where that does not answer any more."""

    objects: Objects = field(kw_only=True)
    is_taken_over: bool = False
    _in_step: set[str] = field(default_factory=set)
    _seen: dict[str, Stamp] = field(default_factory=dict)
    _uploaded_files: dict[str, str] = field(default_factory=dict)
    _next_poll: float = 0.0
    _polling: threading.Lock = field(default_factory=threading.Lock)

    @property
    def address(self) -> dict[str, str]:
        """What a worker needs to reach the storage, as plain values."""
        return {"uri": self.uri, "store": str(self.root)}

    @property
    def title(self) -> str:
        """The URI."""
        return self.uri

    @property
    def uri(self) -> str:
        """The place that all machines reach."""
        return self.objects.uri

    def identity(self) -> str:
        """The name on the storage, so that all machines read the same one."""
        with storage_errors(self.objects):
            found = self.objects.read(IDENTITY)
            if found is None:
                found = uuid.uuid4().hex.encode()
                self.objects.write(IDENTITY, found)
            return found.decode()

    def name(self, path: Path) -> str:
        """The name on the storage of a path of the mirror."""
        return path.relative_to(self.root).as_posix()

    def run(
        self, stage: str, inputs: Mapping[str, Any], build: Callable[[Path], BuildResult | None], made_on: str = ""
    ) -> Artefact:
        """Run a stage as a Store does, with the artefact on both sides."""
        folder = self.folder(stage, inputs)
        self.sync([folder])
        artefact = super().run(stage, inputs, build, made_on)
        self.push(folder)
        return artefact

    def sync(self, folders: Iterable[Path]) -> None:
        """Download folders that are finished only there, and upload those that are finished only here, each with the
        folders that it links to."""
        waiting = list(folders)
        with storage_errors(self.objects), ThreadPoolExecutor(TRANSFERS) as pool:
            while waiting:
                linked = pool.map(functools.partial(self._sync, self._listing(waiting)), waiting)
                waiting = [path for paths in linked for path in paths]

    def _sync(self, there: Mapping[str, Stamp], folder: Path) -> list[Path]:
        name = self.name(folder)
        if name in self._in_step:
            return []
        listed = read_manifest(self.objects.read(f"{name}/{MANIFEST}")) if f"{name}/{MANIFEST}" in there else None
        if listed is None:
            if load_if_complete(folder) is None:
                return []
            self.push(folder)
            listed = Manifest.read(folder)
        elif not pull(self.objects, name, folder):
            self.announce(f"  {name} on the storage is incomplete or was changed; it is made again")
            return []
        self._in_step.add(name)
        linked = [(folder / path).resolve() for path in listed.linked]
        return [path for path in linked if path.is_relative_to(self.root)]

    def has_file(self, path: Path) -> bool:
        """Whether a file of a training is on the storage."""
        with storage_errors(self.objects):
            return self.objects.stamp(self.name(path)) is not None

    def manifests(self, stage: Path) -> dict[Path, bytes | None]:
        """The manifests of a stage on the storage, by the folders of this machine that they are of."""
        with storage_errors(self.objects):
            names = [name for name in self.objects.listing(self.name(stage)) if name.endswith(f"/{MANIFEST}")]
            return {self.root / name.removesuffix(MANIFEST): self.objects.read(name) for name in names}

    def push(self, folder: Path) -> None:
        """Upload a finished folder."""
        with storage_errors(self.objects):
            push(self.objects, folder, self.name(folder))
        self._in_step.add(self.name(folder))

    def begin(self, jobs: Sequence[Job]) -> list[Job]:
        """The jobs with a user's own files uploaded, so that workers of any machine can take them. The outcome of
        earlier attempts is deleted on the storage; their checkpoints stay."""
        with storage_errors(self.objects):
            there = self._listing([Path(job.folder) for job in jobs])
            for job in jobs:
                name = self.name(Path(job.folder))
                self._in_step.discard(name)
                for file in (MANIFEST, FAILURE):
                    if f"{name}/{file}" in there:
                        self.objects.delete(f"{name}/{file}")
            return [with_files(job, self._uploaded) for job in jobs]

    def train_here(self, folders: Iterable[Path]) -> None:
        """Take folders in which this process trains: what a poll would find of them on the storage is older."""
        self._in_step |= {self.name(folder) for folder in folders}

    def _uploaded(self, path: str) -> str:
        """The path in the mirror that stands for a user's file, once the storage has it."""
        if not path or Path(path).is_relative_to(self.root):
            return path
        if path not in self._uploaded_files:
            name = f"{USER_FILES}/{sha256_of(Path(path))[:16]}{Path(path).suffix}"
            if self.objects.stamp(name) is None:
                self.objects.upload(Path(path), name)
            self._uploaded_files[path] = str(self.root / name)
        return self._uploaded_files[path]

    def poll_if_due(self, folders: Sequence[Path]) -> None:
        """Poll, unless the last one was a moment ago."""
        started = time.monotonic()
        if started >= self._next_poll:
            self.poll(folders)
            ended = time.monotonic()
            self._next_poll = ended + max(POLL_EVERY_S, 9 * (ended - started))

    def poll(self, folders: Sequence[Path]) -> None:
        """Download what running trainings have reported, and the outcome of those that have ended."""
        # one at a time: another thread's older listing would delete what this one has downloaded
        with self._polling, storage_errors(self.objects), ThreadPoolExecutor(TRANSFERS) as pool:
            list(pool.map(functools.partial(self._poll, self._listing(folders)), folders))

    def _poll(self, there: Mapping[str, Stamp], folder: Path) -> None:
        name = self.name(folder)
        # a checkpoint here is of heads, which the driver trains: only the finished folder is on the storage
        if name in self._in_step or (folder / STATE).is_file():
            return
        for file in (EPOCHS, DEVELOPMENT_SCORES, FAILURE):
            stamp = there.get(f"{name}/{file}")
            if stamp is None:
                (folder / file).unlink(missing_ok=True)
            elif stamp != self._seen.get(f"{name}/{file}"):
                download(self.objects, f"{name}/{file}", folder / file)
                self._seen[f"{name}/{file}"] = stamp
        if f"{name}/{MANIFEST}" in there and pull(self.objects, name, folder):
            self._in_step.add(name)

    def _listing(self, folders: Iterable[Path]) -> dict[str, Stamp]:
        stages = sorted({self.name(folder.parent) for folder in folders})
        return {name: stamp for stage in stages for name, stamp in self.objects.listing(stage).items()}
