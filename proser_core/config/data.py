"""Images and classes."""

import math
import re
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from proser_core.config.checks import Block
from proser_core.errors import ConfigError

Augmentation = Literal["none", "light", "strong"]
Sampling = Literal["natural", "balanced"]
Flip = Literal["auto", True, False]
HELD_OUT = "held-out-"
IMAGE_SIZES = range(8, 4097)
"""Widths of images, in pixels, that a network may see."""
TABLES = (".csv", ".parquet")
"""Endings of a `group_by` that is a file."""


@dataclass(frozen=True, kw_only=True)
class DataConfig(Block):
    """Which images, which classes are known, and what is held out."""

    prefix: ClassVar[str] = "data."

    name: str = "cifar100"
    """Data set with the known and the unknown test classes (see `proser list`)."""
    image_size: int = 32
    """Height and width in pixels to which every image is resized. 0 is what the backbone torchvision:NAME or timm:NAME
    was trained on. Source: Neal et al. 2018."""
    num_known: int = 15
    """Number of known classes K. 0 makes all classes known: a proxy holds some out and chooses hyperparameters, then a
    network is trained on all. Source: sec. Ablation, CIFAR100 with 15 known classes."""
    unknown: str = ""
    """Data set with the unknown test classes, such as cifar100 for CIFAR+10; empty is the same data set."""
    unknown_settings: tuple[int, ...] = (15, 30, 45, 60, 85)
    """Numbers of unknown test classes, nested: one model is scored in each setting. May be empty."""
    outliers: tuple[str, ...] = ()
    """Outlier sets (see `proser list`), each a separate test setting with as many images as there are known
    test images. `unknown_settings` must then be empty. Source: sec. Open-Set Recognition, MNIST and CIFAR10."""
    development: str = "cifar10"
    """Unknowns that choose hyperparameters: another data set, `held-out-N` for N further classes of the same
    one, or `none`. They are disjoint from all test unknowns. See docs/method-notes.md."""
    split_family: str = ""
    """Family of published class lists. Its trial `split_index` has the known classes; unknown are all others, or
    its own classes of `unknown`. Empty permutes the class ids. Source: proser_core/data/splits/families.py."""
    split_index: int = 0
    """Class split: the seed of the permutation of the class ids, or the trial of a family. See docs/method-notes.md."""
    val_fraction: float = 0.1
    """Share of each known class's training images that is held out for calibration and selection, at least one
    image per class. See docs/method-notes.md."""
    group_by: str = ""
    """Which of your own images belong together and are never divided between training, validation and test: a number of
    folder levels below the class (1: CLASS/GROUP/*), a regular expression on the file name whose groups, or whole
    match without groups, name the group, or a CSV or Parquet table with columns path (below the data directory) and
    group. The same name is one group in every class."""
    group_near_duplicates: bool = True
    """Your own images that look alike (perceptual hash and correlation) belong together too. Turn it off if different
    objects look alike, as in line drawings. Source: proser_core/data/near_duplicates.py."""
    flip: Flip = True
    """Augment with horizontal flips: on, off, or for your own images auto, which is off if mirrored images look less
    like their class. Digits need off. Source: common practice; proser_core/data/mirroring.py."""
    padding: int = 4
    """Zero padding in pixels for random crops. Source: common practice."""
    augmentation: Augmentation = "light"
    """none shows training images as they are. light crops (`padding`) and flips (`flip`). strong adds one RandAugment
    operation per image (magnitude 9, or that of the training), and above 64 pixels random resized crops take the place
    of the padded ones. See docs/method-notes.md."""
    normalisation: tuple[float, ...] = ()
    """Means of red, green and blue, then their standard deviations, in 0..1, by which images are normalised. Empty is
    the normalisation of a pretrained backbone, or else the statistics of the training images."""
    sampling: Sampling = "natural"
    """natural shows each training image once per epoch. balanced shows equally many of each class in an epoch of the
    same length: small classes several times, large ones in part, another part each epoch. See docs/method-notes.md."""
    streaming: bool = False
    """Decode images during training instead of before, for sets larger than memory. Reads Parquet files and
    image folders, with the same result. All machines must see an image folder at the same path."""
    download: bool = False
    """Let torchvision download the data set if `--data-dir` does not hold it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = "at least 8 pixels and at most 4,096, or 0 for what the backbone was trained on"
        self.require("image_size", self.image_size == 0 or self.image_size in IMAGE_SIZES, sizes)
        self.require("num_known", self.num_known == 0 or 2 <= self.num_known <= 100_000, "2 to 100,000, or 0 for all")
        increasing = list(self.unknown_settings) == sorted({n for n in self.unknown_settings if n >= 1})
        self.require("unknown_settings", increasing, "increasing positive numbers of classes, such as 15 30 45")
        self.require("split_index", self.split_index >= 0, "0 or more")
        self.require("val_fraction", 0 < self.val_fraction < 1, "between 0 and 1")
        fits = self.padding < self.image_size or not self.image_size
        self.require("padding", self.padding >= 0 and fits, "0 or more, below the image size")
        self.require("normalisation", self._is_normalisation, "three means, then three standard deviations above 0")
        self.require("unknown", self.unknown != self.name, "another data set, or empty for the same")
        self.require("flip", self.flip != "auto" or self.is_own, "on or off for a data set with published parts")
        self.require("group_by", not self.group_by or self.is_own, "empty for a data set with published parts")
        is_level = not self.group_by.isdecimal() or _is_positive(self.group_by)
        self.require("group_by", is_level, "1 or more for a folder level; empty for no rule")
        self._check_expression()
        if self.outliers:
            self._check_outliers()
        if self.knows_all:
            self._check_all_known()
        self._check_development()
        if self.streaming:
            self._require_empty("data.streaming is on: only images of one data set are streamed", "unknown", "outliers")

    def _check_expression(self) -> None:
        try:
            re.compile("" if self.group_by.lower().endswith(TABLES) else self.group_by)
        except (re.error, OverflowError, RecursionError) as error:
            self.require("group_by", False, f"a folder level, a table or a valid regular expression ({error})")

    def _check_outliers(self) -> None:
        """An outlier set is all that is unknown in its setting."""
        self.require("outliers", len(set(self.outliers)) == len(self.outliers), "different outlier sets")
        self._require_empty("data.outliers are the unknown test images", "unknown_settings", "unknown", "split_family")
        count = f"the number of known classes of {self.name} if data.outliers are given; 0 asks for a proxy"
        self.require("num_known", not self.knows_all, count)

    def _check_all_known(self) -> None:
        # the proxy draws its unknowns from the data set
        self._require_empty("data.num_known is 0, all classes", "unknown_settings", "unknown", "split_family")
        choice = "none if data.num_known is 0, all classes: a proxy holds some out to choose by"
        self.require("development", not self.has_development, choice)

    def _check_development(self) -> None:
        if self.development.startswith(HELD_OUT):
            count = self.development.removeprefix(HELD_OUT)
            self.require("development", _is_positive(count), "like held-out-2")
        tested = (self.name, self.unknown, *self.outliers)
        others = "a data set that is not tested on, held-out-N for N further classes of data.name, or none"
        self.require("development", self.development not in tested, f"{others}; otherwise test unknowns would choose")

    def _require_empty(self, reason: str, *names: str) -> None:
        for name in names:
            self.require(name, not getattr(self, name), f"empty if {reason}")

    @property
    def _is_normalisation(self) -> bool:
        values = self.normalisation
        return not values or (len(values) == 6 and all(map(math.isfinite, values)) and min(values[3:]) > 0)

    @property
    def settings(self) -> tuple[int | str, ...]:
        """The test settings: numbers of unknown classes, or names of outlier sets."""
        return self.outliers or self.unknown_settings

    @property
    def flips(self) -> bool:
        """Whether images are mirrored, once that is `decided`; ConfigError before."""
        if self.flip == "auto":
            raise ConfigError("data.flip is auto, which a task decides; give `task.augmented(data)`")
        return self.flip and self.augmentation != "none"

    @property
    def resizes_crops(self) -> bool:
        """Whether a part of each image is enlarged."""
        return self.augmentation == "strong" and self.image_size > 64

    @property
    def border(self) -> int:
        """Zero padding of the images that are cropped."""
        return 0 if self.augmentation == "none" or self.resizes_crops else self.padding

    def decided(self, *, flip: bool) -> "DataConfig":
        """With this decision in the place of `auto`."""
        return replace(self, flip=flip) if self.flip == "auto" else self

    @property
    def is_own(self) -> bool:
        """Whether the images are a user's own, in folders."""
        return self.name == "folder"

    @property
    def knows_all(self) -> bool:
        """Whether every class is to be known."""
        return self.num_known == 0

    @property
    def has_development(self) -> bool:
        """Whether there are unknowns to choose hyperparameters by."""
        return self.development != "none"

    @property
    def num_development(self) -> int:
        """Classes of the data set itself that are kept for development; 0 if another data set is used."""
        held_out = self.development.startswith(HELD_OUT)
        return int(self.development.removeprefix(HELD_OUT)) if held_out else 0


def _is_positive(digits: str) -> bool:
    """Whether a text is a whole number from 1 on, of at most nine digits."""
    return digits.isdecimal() and len(digits) <= 9 and int(digits) >= 1
