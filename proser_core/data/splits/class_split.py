"""Class splits: which classes are known, and which unknown ones each test setting adds."""

import math
from dataclasses import dataclass

from proser_core.errors import DataError

Setting = int | str
"""A test setting: a number of unknown classes, or the name of an outlier set."""


@dataclass(frozen=True)
class ClassSplit:
    """Class ids of a data set by role. The order of `known` is the index 0..K-1 of the network. Unknown classes of
    another data set, and outlier sets, have ids from the number of classes of the first one on.

    `unknown` is ordered too: the setting with N unknown classes takes its first N; an outlier set, which is one class
    without a name, has its own place among the settings.
    """

    known: tuple[int, ...]
    unknown: tuple[int, ...]
    settings: tuple[Setting, ...]
    development: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        roles = self.known + self.unknown + self.development
        if len(set(roles)) != len(roles):
            raise DataError("a class has two roles in the class split; known, unknown and development must be disjoint")
        counts = [setting for setting in self.settings if isinstance(setting, int)]
        if counts and max(counts) > len(self.unknown):
            raise DataError(f"a setting takes {max(counts)} unknown classes; the split has {len(self.unknown)}")
        if len(counts) < len(self.settings) and (counts or len(self.settings) != len(self.unknown)):
            raise DataError(f"the settings are {self.settings}; of outlier sets each is one class, and stands alone")

    @property
    def num_known(self) -> int:
        """Number of known classes K."""
        return len(self.known)

    @property
    def has_openness(self) -> bool:
        """Whether the settings are numbers of unknown classes; an outlier set has no classes to count."""
        return any(isinstance(setting, int) for setting in self.settings)

    def unknown_in(self, setting: Setting) -> tuple[int, ...]:
        """Class ids that are unknown in a setting: its first so many, or that of its outlier set."""
        if isinstance(setting, int):
            return self.unknown[:setting]
        return (self.unknown[self.settings.index(setting)],)

    def openness(self, setting: Setting) -> float | None:
        """Openness of a setting, a fraction; None of an outlier set."""
        return openness(self.num_known, self.num_known + setting) if isinstance(setting, int) else None


def setting_name(setting: Setting) -> str:
    """The name of a test setting in metrics and files: `unknown_15`, `omniglot`."""
    return f"unknown_{setting}" if isinstance(setting, int) else setting


def where(setting: Setting) -> str:
    """First part of the metrics on the test images of a setting: `test/unknown_15`, `test/omniglot`."""
    return f"test/{setting_name(setting)}"


def setting_at(place: str) -> Setting:
    """Inverse of `where`."""
    name = place.removeprefix("test/")
    count = name.removeprefix("unknown_")
    return int(count) if count != name and count.isdecimal() else name


def in_words(setting: Setting, noun: str = "") -> str:
    """For people: `15 unknown`, with a noun `15 unknown classes`; of an outlier set its name."""
    return f"{setting} unknown {noun}".strip() if isinstance(setting, int) else setting


def openness(num_train: int, num_test: int) -> float:
    """`1 - sqrt(N_train / N_test)` (eq. 8), a fraction; both in classes."""
    return 1.0 - math.sqrt(num_train / num_test)
