"""Dataclasses as JSON values and back; each value is checked against the type of its field."""

import json
import sys
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from proser_core.errors import ConfigError
from proser_core.naming import unknown_name

Config = TypeVar("Config")
NEEDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a string"}


def to_json(config: Any) -> dict[str, Any]:
    """Nested plain values of a dataclass, tuples as lists."""
    return json.loads(json.dumps(asdict(config)))


def from_json(cls: type[Config], values: Any, where: str = "", base: Config | None = None) -> Config:
    """Inverse of `to_json`. Fields that `values` omit are those of `base`, or else the defaults.

    `where` names the value in errors (default: the class). Raises ConfigError for a field that `cls` lacks, one that
    is missing, and a value of another type.
    """
    where = where or cls.__name__
    made = typed_values(cls, values, where)
    needed = [f.name for f in fields(cls) if f.default is f.default_factory is MISSING]  # type: ignore[arg-type]
    missing = [name for name in needed if name not in made]
    if base is None and missing:
        raise ConfigError(f"{where} is incomplete: it lacks {', '.join(missing)}")
    return cls(**made) if base is None else replace(base, **made)  # type: ignore[type-var]


def typed_values(cls: type[Any], values: Any, where: str) -> dict[str, Any]:
    """Some fields of `cls` by name, from JSON. Raises ConfigError for a field that it lacks, and a value of another
    type."""
    hints = get_type_hints(cls)
    kinds = {field.name: hints[field.name] for field in fields(cls)}
    made = {}
    for name, value in _object(values, where).items():
        if name not in kinds:
            raise ConfigError(unknown_name(f"field of {where}", name, kinds))
        made[name] = _value(kinds[name], value, f"{where}.{name}")
    return made


def checked_value(kind: Any, value: Any, where: str) -> Any:
    """A value as a field of type `kind` holds it: numbers of NumPy as Python's, whole ones as floats where those are
    needed, lists as tuples. Raises ConfigError for a value of another type."""
    if isinstance(kind, type) and is_dataclass(kind):
        if not isinstance(value, kind):
            raise ConfigError(f"{where} is {value!r}; need a {kind.__name__}")
        return value
    return _value(kind, list(value) if isinstance(value, tuple) else value, where)


def _object(values: Any, where: str) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ConfigError(f"{where} is {values!r}; need an object of its fields by name")
    return values


def _value(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    origin, parts = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return from_json(kind, value, where)  # type: ignore[arg-type]
    if origin is dict:
        return {name: _value(parts[1], entry, f"{where}.{name}") for name, entry in _object(value, where).items()}
    if origin is tuple:
        return _tuple(parts, value, where)
    if origin is Literal:  # which of them, the class checks
        parts = tuple({type(choice) for choice in parts})
    return _plain(tuple(get_origin(part) or part for part in parts) or (kind,), value, where)


def _tuple(parts: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{where} is {value!r}; need a list")
    kinds = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
    if len(kinds) != len(value):
        raise ConfigError(f"{where} has {len(value)} values; need {len(kinds)}")
    return tuple(_value(kind, entry, f"{where}[{i}]") for i, (kind, entry) in enumerate(zip(kinds, value, strict=True)))


def _plain(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    numpy = sys.modules.get("numpy")  # where it was not loaded, the value is none of its numbers
    if numpy is not None and isinstance(value, numpy.generic):
        value = value.item()
    if type(value) in kinds:
        return value
    if float in kinds and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise ConfigError(f"{where} is too large; need a number below 1.8e308") from None
    raise ConfigError(f"{where} is {value!r}; need {' or '.join(NEEDS.get(kind, kind.__name__) for kind in kinds)}")
