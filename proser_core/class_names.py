"""Names of classes, and the one that no class may have."""

from collections.abc import Sequence

from proser_core.errors import DataError

UNKNOWN = "unknown"


def check_class_names(names: Sequence[str]) -> None:
    """Raises DataError where two classes have one name, or one is called `unknown`: an answer names its class."""
    every = [*names, UNKNOWN]
    doubled = next((name for name in every if every.count(name) > 1), None)
    if doubled is not None:
        raise DataError(f"the class name {doubled!r} would mean two things; need names that differ, none {UNKNOWN!r}")
