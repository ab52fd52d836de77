"""Artefacts from another machine: checked file by file, then copied under the key that they had there."""

import os
import shutil
from pathlib import Path, PurePath
from typing import Any

from proser_core.digests import digest_of, sha256_of
from proser_core.errors import CheckpointError
from proser_core.store.files import read_json
from proser_core.store.store import KEY_DIGITS, MANIFEST, Artefact, Store, load_if_complete


def check_artefact(folder: Path) -> dict[str, Any]:
    """The manifest of a finished folder.

    Raises CheckpointError, with the name of the first file that is missing or was changed.
    """
    manifest = _manifest(folder)
    for name, digest in manifest["files"].items():
        path = folder / name
        if not path.is_file():
            raise CheckpointError(f"{path} is missing, and {MANIFEST} beside it lists it; copy the folder again")
        if sha256_of(path) != digest:
            raise CheckpointError(f"{path} is not the file that {MANIFEST} beside it lists; copy the folder again")
    return manifest


def check_key(folder: Path, manifest: dict[str, Any]) -> None:
    """Raises CheckpointError where the recorded inputs are not those that the folder is named after."""
    if digest_of(folder.parent.name, manifest["inputs"])[:KEY_DIGITS] != folder.name:
        raise CheckpointError(
            f"{folder / MANIFEST} records inputs that do not give the folder's name; copy the folder again"
        )


def import_artefact(folder: Path, stage: str, store: Store) -> Artefact:
    """Copy a checked artefact into `store`, where a run with its inputs finds it; one that is there is left.

    Raises CheckpointError as `check_artefact` does.
    """
    manifest = check_artefact(folder)
    target = store.folder(stage, manifest["inputs"])
    found = load_if_complete(target)
    if found is not None:
        return found
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(beside, ignore_errors=True)
    for name in (*manifest["files"], MANIFEST):
        (beside / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, beside / name)
    shutil.rmtree(target, ignore_errors=True)
    beside.rename(target)
    found = load_if_complete(target)
    if found is None:
        raise CheckpointError(f"{folder} could not be copied to {target}; is the disk full?")
    return found


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        manifest = read_json(path)
    except FileNotFoundError:
        raise CheckpointError(f"{folder} has no {MANIFEST}; need a finished folder, copied whole") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}); copy the folder again") from None
    kinds = {"complete": bool, "inputs": dict, "files": dict, "linked": list}
    if not isinstance(manifest, dict) or not kinds.keys() <= manifest.keys():
        raise CheckpointError(f"{path} is no manifest of a finished folder; copy the folder again")
    for name, kind in kinds.items():
        if not isinstance(manifest[name], kind):
            raise CheckpointError(
                f"{path} has {name} of the kind {type(manifest[name]).__name__}; need {kind.__name__}; "
                "copy the folder again"
            )
    for name in (*manifest["files"], *manifest["linked"]):
        if not isinstance(name, str):
            raise CheckpointError(f"{path} lists {name!r}, which is no file name; copy the folder again")
    for name in manifest["files"]:
        if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
            raise CheckpointError(f"{path} lists {name!r}, which lies outside its folder; do not use that folder")
    return manifest
