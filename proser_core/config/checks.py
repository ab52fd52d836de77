"""What the blocks of a recipe check alike; each error says which field, what it got and what it needs."""

import math
from typing import ClassVar, Literal, get_args, get_origin, get_type_hints

from proser_core.errors import ConfigError
from proser_core.naming import unknown_name
from proser_core.serialization import checked_value


class Block:
    """Base of a recipe and its blocks. `prefix` is what the names of its fields begin with on the command line. Raises
    ConfigError for a field of another type; numbers of NumPy become Python's."""

    prefix: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for name, kind in get_type_hints(type(self)).items():
            if get_origin(kind) is ClassVar:
                continue
            object.__setattr__(self, name, checked_value(kind, getattr(self, name), f"{self.prefix}{name}"))
            if get_origin(kind) is Literal and getattr(self, name) not in get_args(kind):
                choices = map(str, get_args(kind))
                raise ConfigError(unknown_name(f"choice for {self.prefix}{name}", str(getattr(self, name)), choices))

    def require(self, name: str, condition: bool, need: str) -> None:
        """Raises ConfigError for the value of field `name` where the condition does not hold."""
        if not condition:
            raise ConfigError(f"{self.prefix}{name} is {getattr(self, name)!r}; it must be {need}")


def is_not_negative(value: float) -> bool:
    """Whether a value is finite and at least 0."""
    return math.isfinite(value) and value >= 0


def is_positive(value: float) -> bool:
    """Whether a value is finite and above 0."""
    return math.isfinite(value) and value > 0
