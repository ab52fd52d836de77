"""Stage prepare: images on disk to an `OpenSetTask` that every worker maps into memory."""

from pathlib import Path
from typing import Any

from proser_core.config import Recipe, to_json
from proser_core.data.preparation import make_task
from proser_core.data.sources import source_files
from proser_core.errors import ConfigError
from proser_core.jobs.files import read_json, write_json


def prepare_inputs(recipe: Recipe, data_dir: Path | None) -> dict[str, Any]:
    """Fields and files that decide the task; files by name, size and time of change.

    Raises DataError where a data set is not found.
    """
    names = [recipe.data.name]
    if not recipe.data.num_development:
        names.append(recipe.data.development)
    files = [file for name in names for file in source_files(name, data_dir, download=recipe.data.download)]
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    data = to_json(recipe.data)
    augmentation_only = ("flip", "padding", "download")
    return {"data": {k: v for k, v in data.items() if k not in augmentation_only}, "files": stats, "seed": recipe.seed}


def prepare(recipe: Recipe, data_dir: Path | None, folder: Path) -> None:
    """Write the task's arrays, and its class split for people."""
    task = make_task(recipe.data, data_dir, recipe.seed)
    task.save(folder)
    write_json(folder / "class_split.json", describe_split(task.class_names, to_json(task.split)))


def check_batches(recipe: Recipe, task: Path) -> None:
    """Raises ConfigError where the training images do not fill one batch."""
    count = read_json(task / "task.json")["counts"]["train"]
    for block, size in (("pretrain", recipe.pretrain.batch_size), ("finetune", recipe.finetune.batch_size)):
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
