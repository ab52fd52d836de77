"""Preparation: images on disk to an `OpenSetTask` that every worker maps into memory.

Readers of data sets are imported where they are needed, so that a task that was prepared on another
machine is used without them.
"""

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from proser_core.config import FinetuneConfig, Recipe, to_json
from proser_core.data.tasks import TaskSummary
from proser_core.errors import ConfigError
from proser_core.jobs.spec import CLASS_SPLIT, PREPARE
from proser_core.naming import look_up
from proser_core.store.code_version import code_version
from proser_core.store.files import write_json
from proser_core.store.store import Artefact, Built, Store

AUGMENTATION_ONLY = ("flip", "padding", "download")
PREPARING = "proser_core.jobs.preparing"
ENCODED = "encoded"  # folder of a storage: images that were unpacked from Parquet files, by data set


def prepare_inputs(recipe: Recipe, data_dir: Path | None) -> dict[str, Any]:
    """Fields and files that decide the task; files by name, size and time of change.

    Raises DataError where a data set is not found, ConfigError for one that cannot be streamed as it lies.
    """
    from proser_core.data.catalogue import check_streamed, fingerprints
    from proser_core.data.outliers.outlier_sets import outlier_fingerprints

    files = []
    for name in _data_sets(recipe):
        if recipe.data.streaming:
            check_streamed(name, data_dir)
        files += fingerprints(name, data_dir, download=recipe.data.download)
    for name in recipe.data.outliers:
        files += outlier_fingerprints(name, data_dir)
    return {"data": data_fields(recipe), "files": files, "seed": recipe.seed}


def prepare_key(data_inputs: dict[str, Any]) -> dict[str, Any]:
    """What decides a task: fields and files of `prepare_inputs`, and the code that reads them."""
    return {**data_inputs, "code": code_version(PREPARING)}


def prepare_task(recipe: Recipe, data_inputs: dict[str, Any], data_dir: Path | None, store: Store) -> Artefact:
    """The task of a recipe's class split, found or made now; `data_inputs` are its `prepare_inputs`."""
    return store.run(PREPARE, prepare_key(data_inputs), lambda folder: prepare(recipe, data_dir, folder, store))


def missing_images(recipe: Recipe, data_dir: Path | None) -> str:
    """Why a data set of the task cannot be read, and what to do; empty where all are there or can be fetched. Outlier
    sets are not asked for."""
    from proser_core.data.catalogue import missing

    told = (missing(name, data_dir, download=recipe.data.download) for name in _data_sets(recipe))
    return next(filter(None, told), "")


def _data_sets(recipe: Recipe) -> list[str]:
    data = recipe.data
    own = data.num_development or not data.has_development
    return [data.name, *([data.unknown] if data.unknown else []), *([] if own else [data.development])]


def data_fields(recipe: Recipe) -> dict[str, Any]:
    """The fields of `data` that decide the task, as plain values."""
    return {name: value for name, value in to_json(recipe.data).items() if name not in AUGMENTATION_ONLY}


def prepare(recipe: Recipe, data_dir: Path | None, folder: Path, store: Store | None = None) -> Built:
    """Write the task's arrays, and its class split for people, with what they must know of its outlier sets.

    To stream Parquet files, their images are unpacked into `store`, once for all tasks of a data set.
    """
    from proser_core.data.preparation import make_task

    unpacked = _unpacked(recipe, data_dir, store) if recipe.data.streaming else None
    places = None if unpacked is None else {name: artefact.path for name, artefact in unpacked.items()}
    task = make_task(recipe.data, data_dir, recipe.seed, places)
    task.save(folder)
    notes = {"notes": task.notes} if task.notes else {}
    write_json(folder / CLASS_SPLIT, describe_split(task.class_names, to_json(task.split)) | notes)
    return Built(linked=tuple((places or {}).values()))


def _unpacked(recipe: Recipe, data_dir: Path | None, store: Store | None) -> dict[str, Artefact]:
    """The encoded images of each data set that comes in Parquet files."""
    from proser_core.data.catalogue import fingerprints, unpacked_files
    from proser_core.data.readers import parquet

    found = {}
    for name in _data_sets(recipe):
        if unpacked_files(name, data_dir):
            assert store is not None, "streaming Parquet files needs a storage to unpack them into"
            inputs = {"files": fingerprints(name, data_dir), "code": code_version(parquet.__name__)}
            unpack = functools.partial(_unpack, name, data_dir)
            found[name] = store.run(ENCODED, inputs, unpack)
    return found


def _unpack(name: str, data_dir: Path | None, folder: Path) -> None:
    from proser_core.data.catalogue import unpacked_files
    from proser_core.data.readers.parquet import unpack

    unpack(unpacked_files(name, data_dir), folder)


def refuse_streaming(recipe: Recipe) -> None:
    """Raises ConfigError for a recipe whose images only workers on Ray can read."""
    if recipe.data.streaming:
        raise ConfigError(
            "data.streaming is on, and without Ray nothing decodes images while a network trains; "
            "train with `proser run`, or set it to false"
        )


def check_split(recipe: Recipe, data_dir: Path | None) -> None:
    """Raises ConfigError for a data set that is none, DataError where it has too few classes."""
    from proser_core.data.catalogue import SOURCES
    from proser_core.data.preparation import split_of

    for name in _data_sets(recipe):
        look_up("data set", name, SOURCES)
    split_of(recipe.data, data_dir)


def check_prepared_for(recipe: Recipe, inputs: dict[str, Any], where: Path) -> None:
    """Raises ConfigError where a task with these `inputs` was prepared for another recipe."""
    wanted = {**{f"data.{name}": value for name, value in data_fields(recipe).items()}, "seed": recipe.seed}
    data = inputs.get("data")
    fields = data if isinstance(data, dict) else {}
    recorded = {**{f"data.{name}": value for name, value in fields.items()}, "seed": inputs.get("seed")}
    for name, value in wanted.items():
        if recorded.get(name) != value:
            raise ConfigError(
                f"{where} was prepared with {name} {recorded.get(name)!r}, and the recipe has {value!r}; "
                "give the task of this recipe, or change the recipe"
            )


def check_batches(recipe: Recipe, finetunes: Iterable[FinetuneConfig], task: Path) -> None:
    """Raises ConfigError where the training images do not fill one batch, of the pretraining or of any fine-tune."""
    count = TaskSummary.read(task).counts["train"]
    sizes = [("pretrain", recipe.pretrain.batch_size), ("finetune", recipe.finetune.batch_size)]
    for block, size in (*sizes, *(("finetune", tuned.batch_size) for tuned in finetunes)):
        if size > count:
            raise ConfigError(
                f"{block}.batch_size {size} is more than the {count} training images of the {recipe.data.num_known} "
                f"known classes; use at most {count // 2 * 2}"
            )


def describe_split(class_names: tuple[str, ...], split: dict[str, Any]) -> dict[str, Any]:
    """The class split for people: known classes by name, the others by class id."""
    return {
        "known": dict(zip(class_names, split["known"], strict=True)),
        **{k: split[k] for k in split if k != "known"},
    }
