"""`proser sweep RECIPE SPACE ...`: search spaces over class splits."""

from dataclasses import replace

from pipelines.commands.parsing import parse_with_recipe
from pipelines.console import console
from pipelines.recipes import RECIPES
from pipelines.workflow.requests import SweepRequest, SweptRecipe
from proser_core.config import Recipe
from proser_core.errors import ConfigError
from tune_spaces import space_names

ELSEWHERE = {
    "--space": "`proser run`; here, name search spaces right after the recipe",
    "--model-name": "`proser promote --best-of SWEEP`, which registers the best point; a sweep registers no model",
}
"""Options that people look for here."""


def main(arguments: list[str]) -> int:
    """Sweep. Raises ConfigError without a search space, for an option in its place, and for class splits that are given
    twice."""
    spaces = ", ".join(space_names())
    for option in (word.partition("=")[0] for word in arguments):
        if option in ELSEWHERE:
            raise ConfigError(f"{option} is an option of {ELSEWHERE[option]}")
    more = f" SPACE [SPACE ...]\n\nSearch spaces: {spaces}"
    request = parse_with_recipe(
        lambda recipe: SweepRequest(SweptRecipe(**{**vars(recipe), "space": ""})), "sweep", arguments, more
    )
    if not request.spaces:
        raise ConfigError(f"no search space was given; need one or more of {spaces}")
    recipe = Recipe(**vars(request.recipe))
    index = recipe.data.split_index
    if request.split_indices and index != RECIPES[arguments[0]]().data.split_index:
        raise ConfigError(f"--data.split-index got {index}, and --split-indices has the class splits; omit one of them")
    from pipelines.workflow.sweeping import sweep  # it loads torch and mlflow: not for --help

    return sweep(replace(request, recipe=recipe, spaces=tuple(dict.fromkeys(request.spaces))), console())
