"""Finished folders between a machine and a storage behind a URI.

Files are uploaded before the manifest that lists them, and downloaded before it: where a manifest is, its files are.
"""

import json
from contextlib import suppress
from pathlib import Path

from pipelines.storage.objects import Objects
from proser_core.digests import sha256_of
from proser_core.errors import ConfigError
from proser_core.jobs.spec import FAILURE, STATE
from proser_core.store.files import atomic_path, write_atomically
from proser_core.store.store import MANIFEST, Manifest

DOWNLOADS = 2  # of a file before it counts as changed


def read_if_exists(path: Path) -> bytes | None:
    """Bytes of a file of this machine; None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def push(objects: Objects, folder: Path, name: str) -> None:
    """Upload a finished folder to `name`, unless it is there already."""
    manifest = (folder / MANIFEST).read_bytes()
    if objects.read(f"{name}/{MANIFEST}") == manifest:
        return
    objects.delete(f"{name}/{MANIFEST}")  # what it lists is about to change
    for file in json.loads(manifest)["files"]:
        objects.upload(folder / file, f"{name}/{file}")
    objects.write(f"{name}/{MANIFEST}", manifest)
    for file in (STATE, FAILURE):  # of earlier attempts
        objects.delete(f"{name}/{file}")


def pull(objects: Objects, name: str, folder: Path) -> bool:
    """Download the finished folder `name`; False where there is none. Where a file is missing there, or is not the one
    that the manifest lists, the manifest is deleted there."""
    content = objects.read(f"{name}/{MANIFEST}")
    manifest = read_manifest(content)
    if content is None or manifest is None:
        return False
    if read_if_exists(folder / MANIFEST) != content:
        (folder / MANIFEST).unlink(missing_ok=True)
    for file, digest in manifest.files.items():
        if not fetch(objects, f"{name}/{file}", folder / file, digest):
            objects.delete(f"{name}/{MANIFEST}")
            return False
    write_atomically(folder / MANIFEST, content)
    return True


def fetch(objects: Objects, name: str, path: Path, digest: str) -> bool:
    """Download a file, unless it is here; False where none has a SHA-256 that begins with `digest`."""
    if path.is_file() and sha256_of(path).startswith(digest):
        return True
    with suppress(FileNotFoundError), atomic_path(path) as temporary:
        for _ in range(DOWNLOADS):
            objects.download(name, temporary)
            if sha256_of(temporary).startswith(digest):
                return True
        raise FileNotFoundError(f"{name} has other content")
    return False


def download(objects: Objects, name: str, path: Path) -> None:
    """Replace a file by the one on the storage, which no manifest lists yet; delete it where there is none."""
    try:
        with atomic_path(path) as temporary:
            objects.download(name, temporary)
    except FileNotFoundError:
        path.unlink(missing_ok=True)


def read_manifest(content: bytes | None) -> Manifest | None:
    """The manifest of a finished folder; None for one that is incomplete, damaged, or lists files outside it."""
    try:
        manifest = Manifest.parse(content or b"")
        return manifest if manifest.complete else None
    except ConfigError:
        return None
