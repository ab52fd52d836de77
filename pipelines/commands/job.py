"""`proser job RECIPE`: write a recipe's trainings to a file, for a machine without Ray."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from pipelines.commands.parsing import parse_with_recipe
from pipelines.console import console
from pipelines.storage.option import DEFAULT_STORAGE
from pipelines.workflow.requests import UNNAMED, DataDir, StorageFolder
from proser_core.config import Recipe
from proser_core.errors import ConfigError


@dataclass(frozen=True)
class JobRequest:
    """Write a recipe's trainings (its control, its own fine-tune, its search space) to a file, for a machine that has
    only torch and the folder proser_core. Edit the file if the data set lies elsewhere on that machine."""

    recipe: Annotated[Recipe, UNNAMED]
    output: Annotated[Path, tyro.conf.arg(aliases=["-o"])] = Path("JOB.json")
    """Output file."""
    data_dir: DataDir = None
    with_task: bool = False
    """Prepare the images here and write them next to the file, for a machine without the data set."""
    storage: Annotated[StorageFolder, tyro.conf.arg(help="With --with-task: folder of the prepared images.")] = (
        DEFAULT_STORAGE
    )


def main(arguments: list[str]) -> int:
    """Write the file. Raises ConfigError for a storage without prepared images to put there."""
    request = parse_with_recipe(JobRequest, "job", arguments)
    if request.storage != DEFAULT_STORAGE and not request.with_task:
        raise ConfigError(
            f"--storage {request.storage} is for the images that --with-task prepares; give --with-task too, or omit it"
        )
    from pipelines.workflow.offline_jobs import write_job  # it loads torch

    write_job(request.recipe, request.data_dir, request.storage, request.output, request.with_task, console())
    return 0
