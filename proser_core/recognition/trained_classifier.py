"""`TrainedClassifier`: what an `OpenSetClassifier` is made of, as its files and its model card need it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from proser_core.config import NetworkConfig
from proser_core.config.checks import is_positive
from proser_core.config.data import IMAGE_SIZES
from proser_core.data.normalisation import Normalisation
from proser_core.data.splits.class_split import ClassSplit
from proser_core.errors import ConfigError
from proser_core.naming import check_class_names
from proser_core.networks.ensembles import EnsembleNet
from proser_core.networks.nets import PlaceholderNet
from proser_core.recognition.calibration import Calibration
from proser_core.recognition.class_report import ClassReport
from proser_core.recognition.embedding_table import check_embeds
from proser_core.recognition.known_rates import KnownRates
from proser_core.recognition.logit_tables import FittingData
from proser_core.recognition.scores import ScoreFunction
from proser_core.recognition.validation_scores import Proxy, ValidationScores


@dataclass(frozen=True)
class OwnArchitecture:
    """A network of `OWN_NETWORKS` by its name, with the fields of the schedule that sized it."""

    name: str
    schedule: dict[str, Any]


@dataclass(frozen=True)
class Member:
    """A network of an ensemble: the key of its trial, the trial's name, which says what varies, and its metrics."""

    trial: str
    name: str
    results: dict[str, float]


@dataclass(frozen=True)
class TrainedClassifier:
    """Any network with any fitted score, its calibration, and what was measured of them.

    `results` are its metrics by name, as tracking has them, measured with the calibration that it was trained with, and
    `controls` those of the methods that it was compared with; `validation_scores` are its scores of validation images
    and development unknowns, `proxy` is the same training with classes held out, `notes` are lines of its model card,
    `own` is what a method's own network is made by, in the place of `network`, `fitting` is what further scores of it
    can be fitted to, `classes` are the test images by class, `members` tell of the networks of an `EnsembleNet`, the
    best first. All of these may be missing. With `mirror` logits and embeddings are averaged with those of the mirrored
    image. Raises ConfigError where the score needs dummy classifiers and the network has none, or embeddings or
    mirrored images and the network is a method's own, or for a value that predictions cannot use, DataError for class
    names that mean two things.
    """

    net: nn.Module
    network: NetworkConfig
    image_size: int
    split: ClassSplit
    class_names: tuple[str, ...]
    normalisation: Normalisation
    score_function: ScoreFunction
    calibration: Calibration
    recipe: dict[str, Any]
    results: dict[str, float] = field(default_factory=dict)
    validation_scores: ValidationScores | None = None
    proxy: Proxy | None = None
    controls: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    own: OwnArchitecture | None = None
    mirror: bool = False
    fitting: FittingData | None = None
    classes: ClassReport | None = None
    members: tuple[Member, ...] = ()

    def __post_init__(self) -> None:
        check_class_names(self.class_names)
        for name, got, holds, need in self._requirements():
            if not holds:
                raise ConfigError(f"a classifier's {name} got {got}; need {need}")
        if self.score_function.needs_dummies and not self.num_dummies and self.own is None:
            raise ConfigError(
                f"the score {self.score_function.name} needs a network with dummy classifiers, and this one has none; "
                "give another score, or a PlaceholderNet"
            )
        if self.reads_embeddings:
            check_embeds(self.net)

    def _requirements(self) -> Iterator[tuple[str, object, bool, str]]:
        """Fields, their values, whether they are as predictions need them, and how that is."""
        count, (mean, std) = self.split.num_known, self.normalisation
        numbers = [each for each in vars(self.score_function).values() if isinstance(each, float)]
        scales = all(map(math.isfinite, mean)) and all(map(is_positive, std))
        yield (
            "class_names",
            f"{len(self.class_names)} names",
            len(self.class_names) == count,
            f"{count}, as its split has",
        )
        yield "image_size", self.image_size, self.image_size in IMAGE_SIZES, "8 to 4,096 pixels"
        yield "normalisation", self.normalisation, scales, "finite means, and standard deviations above 0"
        yield "score_function", self.score_function, all(map(math.isfinite, numbers)), "finite numbers"

    @property
    def known_rates(self) -> KnownRates | None:
        """What each known rate costs: by its own scores or, where it knows every class, by the proxy's; None where
        there was no unknown image to measure with."""
        own = KnownRates.of(self.validation_scores) if self.validation_scores else None
        if own is None and self.proxy is not None:
            return KnownRates.of(self.proxy.validation_scores, of_proxy=True)
        return own

    @property
    def reads_embeddings(self) -> bool:
        """Whether a prediction needs more than the network's plain logits."""
        return self.mirror or self.score_function.needs_embeddings

    @property
    def architecture(self) -> str:
        """The network's name, for people."""
        return self.network.backbone if self.own is None else self.own.name

    @property
    def forward_passes(self) -> int:
        """Networks that each prediction runs: 1, but for an ensemble."""
        return len(self.net.dummies_of_members) if isinstance(self.net, EnsembleNet) else 1

    @property
    def num_dummies(self) -> int:
        """Dummy classifiers C; 0 of a closed-set network."""
        return self.net.dummies.out_features if isinstance(self.net, PlaceholderNet) else 0
