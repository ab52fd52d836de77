"""Preparation: images on disk to an `OpenSetTask` that every worker maps into memory.

Readers of data sets are imported where they are needed, so that a task that was prepared on another
machine is used without them.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from proser_core.config import FinetuneConfig, Recipe, to_json
from proser_core.errors import ConfigError
from proser_core.jobs.files import read_json, write_json

AUGMENTATION_ONLY = ("flip", "padding", "download")


def prepare_inputs(recipe: Recipe, data_dir: Path | None) -> dict[str, Any]:
    """Fields and files that decide the task; files by name, size and time of change.

    Raises DataError where a data set is not found.
    """
    from proser_core.data.sources import source_files

    names = [recipe.data.name]
    if not recipe.data.num_development:
        names.append(recipe.data.development)
    files = [file for name in names for file in source_files(name, data_dir, download=recipe.data.download)]
    stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return {"data": data_fields(recipe), "files": stats, "seed": recipe.seed}


def data_fields(recipe: Recipe) -> dict[str, Any]:
    """The fields of `data` that decide the task, as plain values."""
    return {name: value for name, value in to_json(recipe.data).items() if name not in AUGMENTATION_ONLY}


def prepare(recipe: Recipe, data_dir: Path | None, folder: Path) -> None:
    """Write the task's arrays, and its class split for people."""
    from proser_core.data.preparation import make_task

    task = make_task(recipe.data, data_dir, recipe.seed)
    task.save(folder)
    write_json(folder / "class_split.json", describe_split(task.class_names, to_json(task.split)))


def check_split(recipe: Recipe) -> None:
    """Raises ConfigError for a data set that is none, DataError where it has too few classes."""
    from proser_core.data.sources import SOURCES
    from proser_core.data.splits import draw_split
    from proser_core.naming import look_up

    draw_split(recipe.data, look_up("data set", recipe.data.name, SOURCES).num_classes)


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
    count = read_json(task / "task.json")["counts"]["train"]
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
