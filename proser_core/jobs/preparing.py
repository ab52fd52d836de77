"""Tasks as artefacts: what decides one, and where it is found again."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from proser_core.config import Recipe, to_json
from proser_core.data import photos
from proser_core.data.data_sets import DataRoot, path_of
from proser_core.data.outliers.outlier_sets import open_outlier_set
from proser_core.data.preparation import make_task, open_data_sets
from proser_core.data.readers import parquet
from proser_core.jobs.spec import CLASS_SPLIT, PREPARE
from proser_core.store.code_version import code_version
from proser_core.store.files import write_json
from proser_core.store.store import MANIFEST, Artefact, BuildResult, Store, load_if_complete

AUGMENTATION_ONLY = ("flip", "padding", "augmentation", "sampling", "download")
PREPARING = __name__
ENCODED = "encoded"  # folder of a storage: images that were unpacked from Parquet files, by data set
PHOTOS = "photos"  # another one: a user's own images, decoded at one size
Progress = Callable[[int, int], None]
"""Called with the number of photos that were decoded, and of all."""


def prepare_inputs(recipe: Recipe, data_dir: DataRoot) -> dict[str, Any]:
    """Fields and files that decide the task; files by name, size and time of change. A task of streamed images names
    them by path, so that where they lie decides it, too.

    Raises DataError where a data set is not found, ConfigError for one that cannot be streamed as it lies.
    """
    files = []
    for data in open_data_sets(recipe.data, data_dir).values():
        if recipe.data.streaming:
            data.packed_files()  # refuses what cannot be streamed
        files += data.fingerprints()
    for name in recipe.data.outliers:
        files += open_outlier_set(name, data_dir).fingerprints()
    root = path_of(data_dir)
    place = {"data_dir": str(root.resolve())} if recipe.data.streaming and root else {}
    return {"data": data_fields(recipe), "files": files, "seed": recipe.seed, **place}


def prepare_key(data_inputs: dict[str, Any], code: str = "") -> dict[str, Any]:
    """What decides a task: fields and files of `prepare_inputs`, and the version of the code that reads them."""
    return {**data_inputs, "code": code or code_version(PREPARING)}


def prepare_task(
    recipe: Recipe,
    data_inputs: dict[str, Any],
    data_dir: DataRoot,
    store: Store,
    code: str = "",
    progress: Progress = lambda done, total: None,
) -> Artefact:
    """The task of a recipe's class split, found or made now; `data_inputs` are its `prepare_inputs`."""
    key = prepare_key(data_inputs, code)
    if recipe.data.streaming:
        _unpacked(recipe, data_dir, store)  # again where they are gone: a finished task has only their places
    return store.run(PREPARE, key, lambda folder: save_task(recipe, data_dir, folder, store, progress))


def data_fields(recipe: Recipe) -> dict[str, Any]:
    """The fields of `data` that decide the task, as plain values."""
    return {name: value for name, value in to_json(recipe.data).items() if name not in AUGMENTATION_ONLY}


def save_task(
    recipe: Recipe,
    data_dir: DataRoot,
    folder: Path,
    store: Store | None = None,
    progress: Progress = lambda done, total: None,
) -> BuildResult:
    """Make the task and write it; also its class split for people, with the notes on its outlier sets.

    To stream Parquet files, their images are unpacked into `store`, and a user's own photos are decoded into it: once
    for all tasks of a data set.
    """
    unpacked = linked = _unpacked(recipe, data_dir, store) if recipe.data.streaming else None
    if store is not None and decodes_photos(recipe):
        unpacked = {recipe.data.name: _decoded(recipe, data_dir, store, progress)}
    task = make_task(recipe.data, data_dir, recipe.seed, unpacked)
    task.save(folder, store.root / ENCODED if store else None)
    known = dict(zip(task.class_names, task.split.known, strict=True))
    notes = {"notes": task.notes} if task.notes else {}
    write_json(folder / CLASS_SPLIT, {**to_json(task.split), "known": known, **notes})
    return BuildResult(linked=tuple((linked or {}).values()))


def decodes_photos(recipe: Recipe) -> bool:
    """Whether all images of the task are a user's own, which are decoded once for all tasks."""
    data = recipe.data
    return data.is_own and not (data.streaming or data.outliers) and len(open_data_sets(data, None)) == 1


def photos_of(recipe: Recipe, data_dir: DataRoot) -> tuple[list[str], dict[str, Any]]:
    """The paths of all photos, and what decides how they are decoded."""
    (data,) = open_data_sets(replace(recipe.data, group_by=""), data_dir).values()
    inputs = {"files": data.fingerprints(), "size": recipe.data.image_size, "code": code_version(photos.__name__)}
    return [file.path for file in data.listing().files], inputs


def _decoded(recipe: Recipe, data_dir: DataRoot, store: Store, progress: Progress) -> Path:
    """Folder with all photos at the size of the recipe. It stays on this machine: others get the task."""
    paths, inputs = photos_of(recipe, data_dir)

    def build(folder: Path) -> None:
        photos.save_photos(paths, recipe.data.image_size, folder, lambda done: progress(done, len(paths)))

    return Store.run(store, PHOTOS, inputs, build).path


def _unpacked(recipe: Recipe, data_dir: DataRoot, store: Store | None) -> dict[str, Path]:
    """Folders with the encoded images of each data set that comes in Parquet files."""
    folders = {}
    for name, data in open_data_sets(recipe.data, data_dir).items():
        if files := data.packed_files():
            assert store is not None, "streaming Parquet files needs a storage to unpack them into"
            inputs = {"files": data.fingerprints(), "code": code_version(parquet.__name__)}
            found = load_if_complete(store.folder(ENCODED, inputs))
            if found is not None and not parquet.is_whole(files, found.path):
                (found.path / MANIFEST).unlink()
            folders[name] = store.run(ENCODED, inputs, partial(parquet.unpack, files)).path
    return folders
