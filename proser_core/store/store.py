"""Finished work on disk, found again by what it was made from.

An artefact is a folder whose manifest.json, written last, lists every file with its SHA-256.
Its name carries a key: a hash of the inputs' contents, the fields of the recipe that matter and
the source code. A stage is skipped if the folder for its key is there, whole and unchanged.
"""

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from proser_core.digests import digest_of, sha256_of
from proser_core.errors import CheckpointError, ConfigError
from proser_core.serialization import from_json, to_json
from proser_core.store.files import flush, parse_json, write_json

MANIFEST = "manifest.json"
DAMAGED = {errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
"""What a place says in which no artefact was written; after other errors, finished work must not be made again."""
KEY_DIGITS = 16
KEY_PATTERN = rf"[0-9a-f]{{{KEY_DIGITS}}}"  # of the name of every artefact's folder


@dataclass(frozen=True)
class Artefact:
    """A finished folder; `digest` depends on the content of its files alone."""

    path: Path
    digest: str


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """An artefact's manifest.json: `files` have SHA-256 digests, `linked` are folders of others, relative to its own.

    `seconds` and `made_on`, the hardware in words, decide nothing. Raises ConfigError for a file outside the folder.
    """

    complete: bool
    seconds: float = 0.0
    made_on: str = ""
    inputs: dict[str, Any]
    files: dict[str, str]
    linked: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.files:
            if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                raise ConfigError(f"{MANIFEST} lists {name!r}, which lies outside its folder; do not use that folder")

    @classmethod
    def parse(cls, content: bytes, where: str = MANIFEST) -> "Manifest":
        """The manifest in a file's content. Raises ConfigError, with `where`, for anything else."""
        try:
            return from_json(cls, parse_json(content), where)
        except ValueError as error:
            raise ConfigError(f"{where} is not JSON ({error})") from error

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """The manifest in a folder. Raises OSError, or ConfigError as `parse`."""
        return cls.parse((folder / MANIFEST).read_bytes(), str(folder / MANIFEST))

    def check_files(self, folder: Path) -> None:
        """Raises CheckpointError with the name of the first file that is missing or was changed."""
        for name, digest in self.files.items():
            path = folder / name
            if not path.is_file():
                raise CheckpointError(f"{path} is missing, and its {MANIFEST} lists it; copy the folder again")
            if sha256_of(path) != digest:
                raise CheckpointError(f"{path} is not the file that its {MANIFEST} lists; copy the folder again")


@dataclass(frozen=True)
class BuildResult:
    """What a stage says of its work: whether all of it succeeded, and the artefacts it points to.

    An incomplete artefact is used, and built again by the next run. A linked folder that is
    missing or changed makes this one stale too.
    """

    complete: bool = True
    linked: tuple[Path, ...] = ()


def artefact_folder(root: Path, stage: str, inputs: Mapping[str, Any]) -> Path:
    """Where in a storage the artefact of a stage for these inputs is, or will be."""
    return root / stage / digest_of(stage, dict(inputs))[:KEY_DIGITS]


Progress = Callable[[int], None]
"""Called with the number of images that have been done since the last call."""


@dataclass
class Store:
    """Artefacts below one folder, which all machines of a cluster must see."""

    root: Path
    ran: dict[str, float] = field(default_factory=dict)
    """Seconds of each stage that this process did not find finished."""
    announce: Callable[[str], None] = lambda stage: None
    """Called with the name of each stage that is about to run."""
    progress: Callable[[str, int], AbstractContextManager[Progress]] = lambda stage, images: nullcontext(
        lambda done: None
    )
    """Entered with the name of a stage and the number of its images, where going through them takes long."""
    option: str = "--storage"
    """What names the folder, for the message where it cannot be written."""

    def __post_init__(self) -> None:
        try:
            self.root = self.root.expanduser().resolve()
            self.root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.root):
                pass
        except (OSError, RuntimeError) as error:  # RuntimeError: a home directory of no user
            reason = (isinstance(error, OSError) and error.strerror) or error
            raise ConfigError(
                f"the folder {self.root} cannot be written ({reason}); give another {self.option}"
            ) from error

    def folder(self, stage: str, inputs: Mapping[str, Any]) -> Path:
        """Where the artefact of a stage for these inputs is, or will be."""
        return artefact_folder(self.root, stage, inputs)

    def run(
        self, stage: str, inputs: Mapping[str, Any], build: Callable[[Path], BuildResult | None], made_on: str = ""
    ) -> Artefact:
        """The artefact of `build(folder)` for `inputs`: found, or made now, on the hardware `made_on` in words.

        `build` may find what an interrupted attempt left in the folder, and go on from there.
        """
        folder = self.folder(stage, inputs)
        found = load_if_complete(folder)
        if found is not None:
            return found
        with self.stage(stage) as seconds:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / MANIFEST).unlink(missing_ok=True)
            built = build(folder) or BuildResult()
            return write_manifest(folder, inputs, built, seconds=seconds(), made_on=made_on)

    @contextmanager
    def stage(self, name: str) -> Iterator[Callable[[], float]]:
        """Announce a stage that runs now, and keep its time without that of stages inside it; gives the seconds since
        it began."""
        if name not in self.ran:
            self.announce(name)
        began, others = time.monotonic(), sum(self.ran.values())
        yield lambda: time.monotonic() - began
        inside = sum(self.ran.values()) - others
        self.ran[name] = self.ran.get(name, 0.0) + time.monotonic() - began - inside


def write_manifest(
    folder: Path,
    inputs: Mapping[str, Any],
    built: BuildResult | None = None,
    seconds: float = 0.0,
    passing: Collection[str] = (),
    made_on: str = "",
) -> Artefact:
    """Write the manifest that makes a folder an artefact; `passing` are files that will be deleted."""
    built = built or BuildResult()
    files = {name: sha256_of(folder / name) for name in _file_names(folder) if name not in passing}
    for name in files:  # a power cut after the manifest must not find less than it lists
        flush(folder / name)
    manifest = Manifest(
        complete=built.complete,
        seconds=round(seconds, 3),
        made_on=made_on,
        inputs=dict(inputs),
        files=files,
        linked=tuple(os.path.relpath(path, folder.resolve()) for path in built.linked),
    )
    write_json(folder / MANIFEST, to_json(manifest))
    return Artefact(folder, digest_of(files))


def load_if_complete(folder: Path, linking: frozenset[Path] = frozenset()) -> Artefact | None:
    """The artefact in a folder, or None where it or one that it links to is missing or changed. `linking` are those
    that link to it: none links to itself."""
    try:
        manifest = Manifest.read(folder)
        manifest.check_files(folder)
    except (ConfigError, CheckpointError):
        return None
    except OSError as error:
        if error.errno not in DAMAGED:
            raise
        return None
    linked = [(folder / path).resolve() for path in manifest.linked]
    above = linking | {folder.resolve()}
    if not manifest.complete or any(path in above or load_if_complete(path, above) is None for path in linked):
        return None
    return Artefact(folder, digest_of(manifest.files))


def check_artefact(folder: Path) -> Manifest:
    """The manifest of a finished folder.

    Raises CheckpointError, with the name of the first file that is missing or was changed, for an unfinished folder,
    and where one that it links to is missing or changed.
    """
    try:
        manifest = Manifest.read(folder)
    except FileNotFoundError:
        raise CheckpointError(f"{folder} has no {MANIFEST}; need a finished folder, copied whole") from None
    except (OSError, ConfigError) as error:
        raise CheckpointError(f"{folder} has no readable {MANIFEST}: {error}; copy the folder again") from None
    manifest.check_files(folder)
    if not manifest.complete:
        raise CheckpointError(
            f"{folder} is incomplete by its {MANIFEST}; finish it where it was made, and copy it again"
        )
    for path in manifest.linked:
        if load_if_complete((folder / path).resolve()) is None:
            raise CheckpointError(f"{folder} links to {path}, which is missing or was changed; copy that folder too")
    return manifest


def check_key(folder: Path, manifest: Manifest) -> None:
    """Raises CheckpointError where the recorded inputs are not those that the folder is named after."""
    if digest_of(folder.parent.name, manifest.inputs)[:KEY_DIGITS] != folder.name:
        raise CheckpointError(
            f"{folder / MANIFEST} records inputs that do not give the folder's name; copy the folder again"
        )


def import_artefact(folder: Path, stage: str, store: Store) -> Artefact:
    """Copy a checked artefact into `store`, where a run with its inputs finds it, unless it is there.

    Raises CheckpointError as `check_artefact` does.
    """
    manifest = check_artefact(folder)
    target = store.folder(stage, manifest.inputs)
    found = load_if_complete(target)
    if found is not None:
        return found
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    for name in (*manifest.files, MANIFEST):
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise CheckpointError(f"{folder / name} is a link out of its folder; copy the folder again, without links")
        (temporary / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, temporary / name)
        flush(temporary / name)
    shutil.rmtree(target, ignore_errors=True)
    temporary.rename(target)
    flush(target.parent)
    found = load_if_complete(target)
    if found is None:
        raise CheckpointError(f"{folder} could not be copied to {target}; is the disk full?")
    return found


def _file_names(folder: Path) -> list[str]:
    paths = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST]
    return sorted(path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts))
