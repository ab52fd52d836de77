"""`proser run RECIPE`: train on images and register a calibrated open-set classifier."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pipelines.commands.parsing import parse_with_recipe
from pipelines.console import console, say
from pipelines.storage.option import DEFAULT_STORAGE
from pipelines.workflow.requests import UNNAMED, ClusterFile, DataDir, Storage
from proser_core.config import Recipe


@dataclass(frozen=True)
class RunRequest:
    """Run a recipe through every stage. Stages that are finished and unchanged are skipped."""

    recipe: Annotated[Recipe, UNNAMED]
    data_dir: DataDir = None
    storage: Storage = DEFAULT_STORAGE
    pretrained: Path | None = None
    """Your own closed-set checkpoint (safetensors or a state_dict), instead of pretraining."""
    cluster_file: ClusterFile = None
    dry_run: bool = False
    """Print the plan with its estimated time, and stop."""
    draw: Path | None = None
    """Write the graph of the stages to this file (.svg, .png, .pdf or .dot), and stop."""


def main(arguments: list[str]) -> int:
    """Run, or draw what would run."""
    request = parse_with_recipe(RunRequest, "run", arguments)
    if request.draw is not None:
        from pipelines.workflow.run import draw  # it loads torch, ray and mlflow: not for --help

        draw(request.draw)
        say(console(), f"written: {request.draw}")
        return 0
    from pipelines.workflow.checks import check_request  # it loads neither ray nor mlflow
    from proser_core.networks.pretrained import with_pretrained

    recipe = with_pretrained(request.recipe)
    check_request(recipe, request.data_dir, request.storage, request.pretrained)
    from pipelines.workflow.run import run

    return run(
        recipe, request.data_dir, request.storage, request.pretrained, console(), request.cluster_file, request.dry_run
    )
