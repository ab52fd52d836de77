"""Stage prepare: the images of one class split, by role."""

from pathlib import Path
from typing import Any

from pipelines.workflow.context import RunContext
from proser_core.config import Recipe
from proser_core.jobs.spec import PREPARE
from proser_core.store.code_version import code_version
from proser_core.store.store import Artefact, Store


def prepare_task(recipe: Recipe, context: RunContext) -> Artefact:
    """As `made_task`. Raises ConfigError where its training images do not fill one batch."""
    from proser_core.jobs.preparing import check_batches

    artefact = made_task(recipe, context)
    check_batches(recipe, context.finetunes, artefact.path)
    return artefact


def made_task(recipe: Recipe, context: RunContext) -> Artefact:
    """The task of the recipe's class split: found, or made now."""
    return task_at(recipe, context.data_inputs[recipe.data.split_index], context.data_dir, context.store)


def task_at(recipe: Recipe, data_inputs: dict[str, Any], data_dir: Path | None, store: Store) -> Artefact:
    """The task of a recipe in a storage; `data_inputs` are its `prepare_inputs`."""
    from proser_core.jobs.preparing import prepare

    return store.run(PREPARE, prepare_key(data_inputs), lambda folder: prepare(recipe, data_dir, folder, store))


def prepare_key(data_inputs: dict[str, object]) -> dict[str, object]:
    """What decides a task: fields and files of `prepare_inputs`, and the code that reads them."""
    return {**data_inputs, "code": code_version("proser_core.jobs.preparing")}
