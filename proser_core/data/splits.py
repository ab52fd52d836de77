"""Class splits: which classes are known, and which unknown ones each test setting adds."""

import math
from dataclasses import dataclass

import numpy as np

from proser_core.config import DataConfig
from proser_core.data.split_families import published_known
from proser_core.errors import ConfigError, DataError


@dataclass(frozen=True)
class ClassSplit:
    """Class ids of a data set by role. The order of `known` is the index 0..K-1 of the network.

    `unknown` is ordered too: the setting with N unknown classes takes its first N.
    """

    known: tuple[int, ...]
    unknown: tuple[int, ...]
    settings: tuple[int, ...]
    development: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        roles = self.known + self.unknown + self.development
        if len(set(roles)) != len(roles):
            raise DataError("a class has two roles in the class split; known, unknown and development must be disjoint")
        if self.settings and max(self.settings) > len(self.unknown):
            raise DataError(f"a setting takes {max(self.settings)} unknown classes; the split has {len(self.unknown)}")

    @property
    def num_known(self) -> int:
        """Number of known classes K."""
        return len(self.known)

    def unknown_in(self, setting: int) -> tuple[int, ...]:
        """Class ids that are unknown in the setting with `setting` unknown classes."""
        return self.unknown[:setting]

    def openness(self, setting: int) -> float:
        """Openness of a setting, a fraction."""
        return openness(self.num_known, self.num_known + setting)


def openness(num_train: int, num_test: int) -> float:
    """`1 - sqrt(N_train / N_test)` (eq:openness), a fraction; both in classes."""
    return 1.0 - math.sqrt(num_train / num_test)


def draw_split(config: DataConfig, num_classes: int) -> ClassSplit:
    """Permute the class ids with PCG64(split_index); known first, then development, then unknown. Or take the
    published lists of a family.

    The paper's own draw is unpublished. Raises DataError where the data set has too few classes, ConfigError for a
    family that does not fit the recipe.
    """
    if config.split_family:
        return _published_split(config, num_classes)
    widest = max(config.unknown_settings, default=0)
    needed = config.num_known + config.num_development + widest
    if num_classes < needed:
        raise DataError(
            f"{config.name} has {num_classes} classes; the recipe needs {needed} "
            f"({config.num_known} known, {config.num_development} for development, {widest} unknown). "
            "Lower data.num_known or data.unknown_settings"
        )
    if needed == config.num_known == num_classes:  # nothing to draw
        return ClassSplit(tuple(range(num_classes)), (), ())
    order = np.random.Generator(np.random.PCG64(config.split_index)).permutation(num_classes).tolist()
    after_known = config.num_known + config.num_development
    return ClassSplit(
        known=tuple(order[: config.num_known]),
        development=tuple(order[config.num_known : after_known]),
        unknown=tuple(order[after_known : after_known + widest]),
        settings=config.unknown_settings,
    )


def _published_split(config: DataConfig, num_classes: int) -> ClassSplit:
    """Unknown are all other classes, in order, so that none is left for development."""
    known = published_known(config.split_family, config.name, config.split_index)
    unknown = tuple(number for number in range(num_classes) if number not in known)
    wanted = (config.num_known, config.unknown_settings)
    if wanted != (len(known), (len(unknown),)):
        raise ConfigError(
            f"data.split_family {config.split_family} knows {len(known)} classes of {config.name} and leaves "
            f"{len(unknown)}; data.num_known is {config.num_known} and data.unknown_settings "
            f"{config.unknown_settings}. Set them to {len(known)} and {len(unknown)}"
        )
    if config.num_development:
        raise ConfigError(
            f"data.development is {config.development}, and data.split_family {config.split_family} leaves no class of "
            f"{config.name} for it; name another data set, such as cifar100 for CIFAR10"
        )
    return ClassSplit(known=known, unknown=unknown, settings=(len(unknown),))
