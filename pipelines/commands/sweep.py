"""`proser sweep RECIPE SPACE ...`: search spaces over class splits."""

from dataclasses import replace

from pipelines.commands.parsing import parse_with_recipe
from pipelines.console import console
from pipelines.workflow.requests import SweepRequest
from proser_core.errors import ConfigError
from tune_spaces import space_names


def main(arguments: list[str]) -> int:
    """Sweep. Raises ConfigError without a search space."""
    spaces = ", ".join(space_names())
    more = f" SPACE [SPACE ...]\n\nSearch spaces: {spaces}"
    request = parse_with_recipe(SweepRequest, "sweep", arguments, more)
    if not request.spaces:
        raise ConfigError(f"no search space was given; need one or more of {spaces}")
    from pipelines.workflow.sweeping import sweep  # it loads torch and mlflow: not for --help

    return sweep(replace(request, spaces=tuple(dict.fromkeys(request.spaces))), console())
