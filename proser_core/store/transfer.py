"""Artefacts from another machine: checked file by file, then copied under the key that they had there."""

import os
import shutil
from pathlib import Path

from proser_core.digests import digest_of
from proser_core.errors import CheckpointError, ConfigError
from proser_core.store.store import KEY_DIGITS, MANIFEST, Artefact, Manifest, Store, load_if_complete


def check_artefact(folder: Path) -> Manifest:
    """The manifest of a finished folder.

    Raises CheckpointError, with the name of the first file that is missing or was changed.
    """
    try:
        manifest = Manifest.read(folder)
    except FileNotFoundError:
        raise CheckpointError(f"{folder} has no {MANIFEST}; need a finished folder, copied whole") from None
    except (OSError, ConfigError) as error:
        raise CheckpointError(f"{folder} has no readable {MANIFEST}: {error}; copy the folder again") from None
    manifest.check_files(folder)
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
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(beside, ignore_errors=True)
    for name in (*manifest.files, MANIFEST):
        (beside / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, beside / name)
    shutil.rmtree(target, ignore_errors=True)
    beside.rename(target)
    found = load_if_complete(target)
    if found is None:
        raise CheckpointError(f"{folder} could not be copied to {target}; is the disk full?")
    return found
