"""Class splits: which classes are known, and which unknown ones each test setting adds."""

import math
from dataclasses import dataclass

import numpy as np

from proser_core.config import DataConfig
from proser_core.data.splits.families import published_lists
from proser_core.errors import ConfigError, DataError

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
    """As metrics and files have it: `unknown_15`, `omniglot`."""
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


def draw_split(config: DataConfig, num_classes: int, num_foreign: int = 0) -> ClassSplit:
    """Permute the class ids with PCG64(split_index); known first, then development, then unknown. Or take the
    published lists of a family.

    `num_foreign` is how many classes `data.unknown` has; their ids, or those of `data.outliers`, follow those of
    `data.name`. The paper's own draw is unpublished. Raises DataError where a data set has too few classes, or a
    family's lists are wrong; ConfigError for a family that does not fit.
    """
    if config.split_family:
        return _published_split(config, num_classes, num_foreign)
    widest = max(config.unknown_settings, default=0)
    own = 0 if config.unknown else widest
    needed = config.num_known + config.num_development + own
    if num_classes < needed:
        raise DataError(
            f"{config.name} has {num_classes} classes; the recipe needs {needed} "
            f"({config.num_known} known, {config.num_development} for development, {own} unknown). "
            "Lower data.num_known or data.unknown_settings"
        )
    if config.unknown and num_foreign < widest:
        raise DataError(
            f"{config.unknown} has {num_foreign} classes, and data.unknown_settings asks for {widest}; lower it"
        )
    nothing_to_draw = needed == config.num_known == num_classes and not config.unknown
    order = list(range(num_classes)) if nothing_to_draw else _permuted(config, num_classes)
    after_known = config.num_known + config.num_development
    unknown = order[after_known:][:widest]
    if config.unknown:
        unknown = [num_classes + number for number in _permuted(config, num_foreign)][:widest]
    if config.outliers:
        unknown = [num_classes + position for position in range(len(config.outliers))]
    return ClassSplit(
        known=tuple(order[: config.num_known]),
        development=tuple(order[config.num_known : after_known]),
        unknown=tuple(unknown),
        settings=config.settings,
    )


def _permuted(config: DataConfig, count: int) -> list[int]:
    return np.random.Generator(np.random.PCG64(config.split_index)).permutation(count).tolist()


def _published_split(config: DataConfig, num_classes: int, num_foreign: int) -> ClassSplit:
    """Unknown are all other classes, in order, so that none remains for development; or those of another data set."""
    known, foreign = published_lists(config, num_classes, num_foreign)
    others = tuple(number for number in range(num_classes) if number not in known)
    if config.unknown:
        unknown, left = tuple(num_classes + number for number in foreign), len(others)
        fits, sizes = max(config.unknown_settings, default=0) <= len(unknown), f"at most {len(unknown)}"
    else:
        unknown, left = others, 0
        fits, sizes = config.unknown_settings == (len(unknown),), f"{len(unknown)}"
    if config.num_known != len(known) or not fits:
        raise ConfigError(
            f"data.split_family {config.split_family} knows {len(known)} classes of {config.name}; data.num_known is "
            f"{config.num_known} and data.unknown_settings {config.unknown_settings}. Set them to {len(known)} and "
            f"{sizes}"
        )
    if config.num_development > left:
        raise ConfigError(
            f"data.development is {config.development}, and data.split_family {config.split_family} leaves {left} "
            f"classes of {config.name} for it; name another data set, such as cifar100 for CIFAR10"
        )
    development = others[: config.num_development]
    return ClassSplit(known=known, unknown=unknown, settings=config.unknown_settings, development=development)
