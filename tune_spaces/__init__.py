"""Search spaces of the sweep, in Ray Tune's own words: one file, one space.

A space module has a docstring (its first line is shown by `proser list`) and a function `param_space()` that returns a
dictionary of recipe fields, as Tune wants it: `tune.grid_search` for a grid, `tune.uniform` and the like for a search.
Its name is the file's name; a file of your own anywhere is given by its path, `my_space.py`.

A module may also name its points (`POINTS`), list what a paper prints for them (`PUBLISHED`) and what it
says of their order (`CLAIMS`); the report shows these next to its own results.
"""

import ast
import importlib
import json
import re
import runpy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from proser_core.errors import ConfigError, first_line
from proser_core.naming import unknown_name
from proser_core.rng import keyed_generator
from proser_core.serialization import from_json

FOLDER = Path(__file__).parent
Fields = dict[str, Any]  # fields of `finetune`


@dataclass(frozen=True)
class Published:
    """A number that a paper prints for a point of a space. Shown only for the same data set and class counts."""

    point: Fields
    metric: str  # macro_f1 or auroc
    value: float  # a fraction
    source: str
    num_known: int = 15
    num_unknown: int = 15
    data_set: str = "cifar100"


@dataclass(frozen=True)
class Claim:
    """An order that a paper states: the first of each pair is above the second in macro-F1. A point is given by its
    fields, or by its name in `POINTS` or among the controls of a run. Shown only where a number is."""

    says: str
    pairs: tuple[tuple[Fields | str, Fields | str], ...]
    source: str
    num_known: int = 15
    num_unknown: tuple[int, ...] = (15,)
    data_set: str = "cifar100"


@dataclass(frozen=True)
class SpaceInfo:
    """What a space module says of its points: names, published numbers, claims."""

    headline: str = ""  # first line of its docstring
    points: dict[str, Fields] = field(default_factory=dict)
    published: tuple[Published, ...] = ()
    claims: tuple[Claim, ...] = ()


def space_names() -> list[str]:
    """Names of all spaces, without importing Ray."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


def describe(name: str) -> str:
    """First line of a space's docstring, without importing Ray."""
    path = Path(name) if name.endswith(".py") else FOLDER / f"{name}.py"
    return (ast.get_docstring(ast.parse(path.read_bytes())) or "").partition("\n")[0]


def check_name(name: str) -> None:
    """Raises ConfigError where there is no such file, or, with the nearest name, no such space."""
    if name.endswith(".py"):
        if not Path(name).is_file():
            raise ConfigError(f"search space {name}: there is no such file; give the path of a space's .py file")
    elif name not in space_names():
        raise ConfigError(unknown_name("search space", name, space_names()))


def title_of(name: str) -> str:
    """The name of a space; of a file of the user's own, that without folder and ending."""
    return Path(name).stem if name.endswith(".py") else name


def folder_of(name: str) -> str:
    """What the folder of a space's figures is called."""
    return re.sub(r"[^\w.-]+", "_", title_of(name))


def space_info(name: str) -> SpaceInfo:
    """Names of a space's points, and what was published of them, as plain values; nothing for a space that is not
    there. Raises ConfigError for what is not of these types."""
    if name not in space_names() and not (name.endswith(".py") and Path(name).is_file()):
        return SpaceInfo()
    module = _module(name)
    said = {each: module[each.upper()] for each in ("points", "published", "claims") if each.upper() in module}
    try:
        plain = json.loads(json.dumps(said, default=_as_plain))
        return replace(from_json(SpaceInfo, plain, "it"), headline=describe(name))
    except (ConfigError, TypeError, ValueError) as error:
        raise ConfigError(
            f"search space {name}: {first_line(error)}; POINTS are names with fields of finetune, PUBLISHED and CLAIMS "
            "lists of Published and Claim"
        ) from error


def _as_plain(value: Any) -> Any:
    """Numbers of NumPy and our own classes as JSON takes them. Raises TypeError for any other object."""
    if isinstance(value, Published | Claim):
        return vars(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"it has {value!r}")


def expand(name: str) -> list[dict[str, Any]]:
    """The points of a grid, as nested recipe fields, resolved by Tune's own generator. Raises ConfigError for a name
    that is none, an empty space, or one with random draws."""
    space = _param_space(name)
    if _draws(space):
        raise ConfigError(
            f"search space {name!r} draws values at random; a grid needs tune.grid_search for each field, "
            "and `proser sweep` searches spaces with draws"
        )
    return [_plain(point) for point in _variants(name, space, np.random.default_rng(0))]


def draws_values(name: str) -> bool:
    """Whether a space has random draws, and so is searched instead of gone through."""
    return _draws(_param_space(name))


def sample(name: str, count: int, seed: int) -> list[dict[str, Any]]:
    """`count` points drawn from a space with random draws, numbers to four significant digits. Equal seeds give equal
    points; a larger count gives the same ones first. Raises ConfigError for a name that is none, or an empty space."""
    space = _param_space(name)
    points: list[dict[str, Any]] = []
    while len(points) < count:
        drawn = _variants(name, space, keyed_generator(seed, "search", len(points)))
        points += [_plain(point, digits=4) for point in drawn]
    return points[:count]


def _plain(point: Any, digits: int = 17) -> Any:
    """The point with NumPy's numbers as Python's, of so many significant digits; 17 keep every one."""
    if isinstance(point, dict):
        return {name: _plain(value, digits) for name, value in point.items()}
    value = point.item() if isinstance(point, np.generic) else point
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def _variants(name: str, space: dict[str, Any], draw: np.random.Generator) -> list[dict[str, Any]]:
    """A generator, not a seed: Tune would begin each field's draws from the same seed."""
    from ray.tune.search.variant_generator import generate_variants

    try:
        return [variant for _, variant in generate_variants(space, random_state=draw)]
    except Exception as error:  # of values in a user's own file
        raise ConfigError(f"search space {name}: its values cannot be drawn: {first_line(error)}") from error


def _param_space(name: str) -> dict[str, Any]:
    check_name(name)
    function = _module(name)["param_space"]
    try:
        space = function()
    except (Exception, SystemExit) as error:  # of a user's own file
        raise ConfigError(f"search space {name}: param_space() fails: {first_line(error)}") from error
    if not isinstance(space, dict) or not space or not _variants(name, space, np.random.default_rng(0)):
        raise ConfigError(f"search space {name!r} is empty; give each field at least one value")
    return space


def _module(name: str) -> dict[str, Any]:
    """What the module of a space defines, by name."""
    if not name.endswith(".py"):
        return vars(importlib.import_module(f"tune_spaces.{name}"))
    try:
        module = runpy.run_path(name)
    except (Exception, SystemExit) as error:  # a file of the user's own
        raise ConfigError(f"search space {name} cannot be loaded: {first_line(error)}") from error
    if not callable(module.get("param_space")):
        raise ConfigError(f"search space {name} has no function param_space(); see CONTRIBUTING.md for an example")
    return module


def _draws(space: Any) -> bool:
    from ray.tune.search.sample import Domain

    if isinstance(space, dict | list | tuple):  # a list: the values of a grid
        return any(map(_draws, space.values() if isinstance(space, dict) else space))
    return isinstance(space, Domain)
