"""Search spaces of the sweep, in Ray Tune's own words: one file, one space.

A space module has a docstring (its first line is shown by `proser list`) and a function
`param_space()` that returns a dictionary of recipe fields, as Tune wants it. Its name is the
file's name.
"""

import ast
import importlib
from pathlib import Path
from typing import Any

from proser_core.errors import ConfigError
from proser_core.naming import unknown_name

FOLDER = Path(__file__).parent


def space_names() -> list[str]:
    """Names of all spaces, without importing Ray."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def describe(name: str) -> str:
    """First line of a space's docstring, without importing Ray."""
    docstring = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text())) or ""
    return docstring.splitlines()[0] if docstring else ""


def check_name(name: str) -> None:
    """Raises ConfigError, with the nearest name, where there is no such space."""
    if name not in space_names():
        raise ConfigError(unknown_name("search space", name, space_names()))


def expand(name: str) -> list[dict[str, Any]]:
    """The points of a space, as nested recipe fields, resolved by Tune's own generator.

    Raises ConfigError for a name that is none, an empty space, or one with random draws.
    """
    from ray.tune.search.variant_generator import generate_variants

    check_name(name)
    space = importlib.import_module(f"tune_spaces.{name}").param_space()
    if _draws(space):
        raise ConfigError(
            f"search space {name!r} draws values at random; a sweep needs tune.grid_search for each field"
        )
    points = [variant for _, variant in generate_variants(space)]
    if not points or not space:
        raise ConfigError(f"search space {name!r} is empty; give each field at least one value")
    return points


def _draws(space: Any) -> bool:
    from ray.tune.search.sample import Domain

    if isinstance(space, dict):
        return any(_draws(value) for value in space.values())
    return isinstance(space, Domain)
