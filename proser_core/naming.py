"""Mistyped names, and the names that classes may have."""

import difflib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from proser_core.errors import ConfigError, DataError

Value = TypeVar("Value")
UNKNOWN = "unknown"
"""What no known class may be called, in upper or lower case."""
UNSHOWN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
"""Unicode categories of control characters, of invisible ones, of bytes that are not UTF-8, and of breaks of lines and
paragraphs."""
JOINERS = "\u200c\u200d"
"""Invisible, and needed: Persian words and emoji are spelt with them."""


class Named(dict[str, Value]):
    """Things of one kind, each by its `name`. Raises ConfigError, as `look_up` does, for a name that none of them
    has."""

    def __init__(self, kind: str, things: Iterable[Any]) -> None:
        super().__init__({each.name: each for each in things})
        self._kind = kind

    def __missing__(self, name: str) -> Value:
        raise ConfigError(unknown_name(self._kind, str(name), self))


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
    return f"no {kind} is called {name!r}{hint} Available: {'; '.join(names)}"


def composed(name: str) -> str:
    """With each accent in one character with its letter (Unicode NFC). Names of files from macOS often have it as a
    character of its own (NFD), and look the same."""
    return unicodedata.normalize("NFC", name)


def as_spelt(name: str, names: Iterable[str]) -> str:
    """The one among `names` that differs from `name` at most in how accents are stored; else `name`."""
    return {composed(each): each for each in names}.get(composed(name), name)


def check_class_names(names: Sequence[str]) -> None:
    """Raises DataError where two classes have one name, or one is called `unknown`: a prediction names its class. Also
    for a name that no file or terminal could show: one that is not UTF-8, is blank, or has control characters, or
    others that are invisible."""
    looks = [re.sub(f"[{JOINERS}]", "", composed(name)) for name in names]
    counts = Counter(looks)
    taken = next((name for name, look in zip(names, looks, strict=True) if look.strip().lower() == UNKNOWN), None)
    if taken is not None:
        raise DataError(
            f"the class name {taken!r} would mean two things; need another one: {UNKNOWN!r}, in upper or lower case, "
            "is what a prediction calls an image of no class. Rename it; give images of no class to `proser evaluate`, "
            "beside folders of known classes"
        )
    doubled = next((name for name, look in zip(names, looks, strict=True) if counts[look] > 1), None)
    if doubled is not None:
        raise DataError(
            f"the class name {doubled!r} would mean two things; need names that differ, in more than how their accents "
            "are stored (Unicode NFC or NFD) or in joiners (U+200C, U+200D)"
        )
    bad = next((name for name, look in zip(names, looks, strict=True) if not look.strip() or _unshown(look)), None)
    if bad is not None:
        characters = ", ".join(f"U+{ord(each):04X}" for each in _unshown(bad))
        raise DataError(
            f"the class name {bad!r} cannot be shown{f' ({characters})' if characters else ''}; need a name in UTF-8 "
            "that is not blank and has no invisible character or line break: rename the class, or its folder"
        )


def _unshown(name: str) -> list[str]:
    return [each for each in name if unicodedata.category(each) in UNSHOWN and each not in JOINERS]
