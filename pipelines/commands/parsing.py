"""How commands read their arguments: a recipe and a pretraining schedule by name, then the fields of a request."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn, TypeVar

import tyro

from pipelines.recipes import RECIPES, headline, with_schedule
from pipelines.workflow.requests import UNNAMED
from proser_core.config import Recipe
from proser_core.naming import look_up

Request = TypeVar("Request")


@dataclass(frozen=True)
class Schedule:
    """An option that decides the defaults of others, and so is parsed before them."""

    pretraining: str = ""
    """Pretraining schedule: short, long, strong or fast (see `proser list`). Options --pretrain.* come on top."""


def parse(kind: type[Request], command: str, arguments: list[str]) -> Request:
    """A request from the options that its fields are. Prints the help or what is wrong, and exits."""
    return tyro.cli(kind, prog=f"proser {command}", args=arguments)


def parse_with_recipe(
    kind: Callable[[Recipe], Request], command: str, arguments: list[str], more: str = " [options]"
) -> Request:
    """As `parse`, of a request with a recipe, whose name comes first; `more` is what the usage text shows after it."""
    if not arguments or arguments[0].startswith("-"):
        names = {name: headline(make) for name, make in RECIPES.items()}
        show_names(f"{command} RECIPE", more, "Recipes", names, arguments)
    recipe = look_up("recipe", arguments[0], RECIPES)()
    return parse_with_schedule(
        lambda name: kind(with_schedule(recipe, name) if name else recipe), f"{command} {arguments[0]}", arguments[1:]
    )


def parse_with_schedule(
    default: Callable[[str], Request], command: str, arguments: list[str], schedule: str = ""
) -> Request:
    """As `parse`; `default` makes the request that the options change, from the name of a schedule."""
    options: dict[str, Any] = {"prog": f"proser {command}"}
    chosen, rest = tyro.cli(
        Schedule, args=arguments, default=Schedule(schedule), return_unknown_args=True, add_help=False, **options
    )
    usual = default(chosen.pretraining)
    kind: Any = type(usual)
    form: Any = tuple[Annotated[kind, UNNAMED], Annotated[Schedule, UNNAMED]]  # the second for its help text
    request, _ = tyro.cli(
        form, args=rest, default=(usual, chosen), description=inspect.cleandoc(kind.__doc__), **options
    )
    return request


def show_names(usage: str, more: str, title: str, names: Mapping[str, str], arguments: list[str]) -> NoReturn:
    """Print what may come first, and exit: with 0 for --help, else with 2."""
    width = max(map(len, names))
    lines = "\n".join(f"  {name:<{width}}  {text}" for name, text in names.items())
    print(f"usage: proser {usage}{more}\n\n{title}:\n{lines}\n\n`proser {usage} --help` explains every option.")
    raise SystemExit(0 if arguments in (["--help"], ["-h"]) else 2)
