"""Drawing the class split of a recipe, or taking that of a published family."""

import numpy as np

from proser_core.config import DataConfig
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.splits.families import published_lists
from proser_core.errors import ConfigError, DataError


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
