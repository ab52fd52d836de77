"""Answers to a mistyped name."""

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

from proser_core.errors import ConfigError

Value = TypeVar("Value")


def look_up(kind: str, name: str, options: Mapping[str, Value]) -> Value:
    """`options[name]`. Raises ConfigError with the nearest name and all names."""
    if name in options:
        return options[name]
    raise ConfigError(unknown_name(kind, name, options))


def unknown_name(kind: str, name: str, options: Iterable[str]) -> str:
    """Message for a name that is not among `options`."""
    names = sorted(options)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    return f"no {kind} is called {name!r}{hint} There is: {', '.join(names)}"
