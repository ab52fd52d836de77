"""Stage prepare: the images of one class split, by role."""

from pipelines.context import RunContext
from proser_core.config import Recipe
from proser_core.jobs.code_version import code_version
from proser_core.jobs.spec import PREPARE
from proser_core.jobs.store import Artefact


def prepare_task(recipe: Recipe, context: RunContext) -> Artefact:
    """The task of the recipe's class split: found, or made now.

    Raises ConfigError where its training images do not fill one batch.
    """
    from proser_core.jobs.preparing import check_batches, prepare

    inputs = prepare_key(context.data_inputs[recipe.data.split_index])
    store = context.store
    artefact = store.run(PREPARE, inputs, lambda folder: prepare(recipe, context.data_dir, folder, store))
    check_batches(recipe, context.finetunes, artefact.path)
    return artefact


def prepare_key(data_inputs: dict[str, object]) -> dict[str, object]:
    """What decides a task: fields and files of `prepare_inputs`, and the code that reads them."""
    return {**data_inputs, "code": code_version("proser_core.jobs.preparing")}
