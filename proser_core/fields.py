"""Values that come as JSON, or from a user's own code, checked against the fields of a dataclass by their kinds."""

import types
import typing
from dataclasses import is_dataclass
from typing import Any, Literal

from proser_core.errors import ConfigError

KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}


def fitting(cls: Any, values: Any, where: str) -> dict[str, Any]:
    """`values` with whole numbers for real ones turned into them. Raises ConfigError for another kind of value."""
    if not isinstance(values, dict):
        raise ConfigError(f"{where} is {values!r}; need an object of its fields by name")
    kinds = typing.get_type_hints(cls)
    return {
        name: _value(kinds[name], value, f"{where}.{name}") if name in kinds else value
        for name, value in values.items()
    }


def _value(kind: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if is_dataclass(kind):
        return fitting(kind, value, where)
    if origin is dict:
        return {name: _value(str, entry, f"{where}.{name}") for name, entry in fitting(object, value, where).items()}
    if origin is tuple:
        if not isinstance(value, list):
            raise ConfigError(f"{where} is {value!r}; need a list")
        return [_value(typing.get_args(kind)[0], entry, where) for entry in value]
    kind = str if origin in (Literal, types.UnionType) else kind
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise ConfigError(f"{where} is too large; need a number below 1.8e308") from None
    if type(value) is not kind:
        raise ConfigError(f"{where} is {value!r}; need {KINDS[kind]}")
    return value
