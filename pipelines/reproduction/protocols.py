"""The protocols of the paper as data: which images, how many known and unknown classes, and which number is read."""

from dataclasses import dataclass, replace

from proser_core import titles
from proser_core.config import DataConfig
from proser_core.data.splits.class_split import where
from proser_core.data.splits.families import FAMILIES, Against
from proser_core.data.splits.lists import Splits
from proser_core.errors import ConfigError

PERMUTED = "permuted"
"""Class splits of our own: the class ids permuted by the split's index. They belong to no published family."""


@dataclass(frozen=True)
class Study:
    """One training task per class split, from which several columns may read."""

    title: str
    data: DataConfig
    splits: tuple[int, ...]
    """Class splits by default, where a family has as many. Where every class is known there is one."""
    family: str = ""
    """Published class lists by default; empty where there are none."""

    def data_of(self, family: str, split_index: int) -> DataConfig:
        """The images of one class split."""
        return replace(
            self.data,
            split_family="" if family == PERMUTED else family,
            split_index=split_index,
            unknown_settings=self._settings(family),
        )

    def splits_of(self, family: str) -> tuple[int, ...]:
        """Class splits by default: those that a family has."""
        return self.splits[: len(self._known(family))] if family in FAMILIES else self.splits

    def families(self) -> list[str]:
        """The published families that have lists for it; none where every class is known."""
        return [name for name in FAMILIES if self._known(name)] if len(self.splits) > 1 else []

    def _known(self, family: str) -> Splits:
        """The lists of known classes that a published family has for it."""
        lists = FAMILIES[family].lists(self.data.name, self.data.unknown) if family in FAMILIES else None
        return () if lists is None else lists.known

    def _against(self, family: str) -> Against | None:
        """A family's lists of unknown classes of the other data set."""
        return FAMILIES[family].against.get((self.data.name, self.data.unknown)) if family in FAMILIES else None

    def _settings(self, family: str) -> tuple[int, ...]:
        """Numbers of unknown classes, those that a family has lists for."""
        against = self._against(family)
        return tuple(n for n in self.data.unknown_settings if against is None or n in against.settings)

    def check_family(self, family: str) -> None:
        """Raises ConfigError for a family that has no lists for it."""
        has = [*self.families(), PERMUTED] if len(self.splits) > 1 else []
        if family and family not in has:
            need = f"one of {', '.join(has)}" if has else "nothing: it has no class splits that were published"
            raise ConfigError(f"--split-family got {family!r}, and {self.title} takes {need}")

    def check_column(self, column: "Column", family: str) -> None:
        """Raises ConfigError for a family without lists for the number of unknown classes that a column reads."""
        lacks = set(self.data.unknown_settings) - set(self._settings(family))
        if any(column.metric.startswith(f"test/unknown_{number}/") for number in lacks):
            against = self._against(family)
            raise ConfigError(
                f"--split-family {family} has no lists for {column.title}"
                + (f", only for {against.called}" if against else "")
                + "; omit that protocol, or choose another family (proser list)"
            )


@dataclass(frozen=True)
class Column:
    """One column of a table: a metric of a study, by its name in an `EvaluationReport`, or `seconds`."""

    title: str
    study: str
    metric: str

    @property
    def unit(self) -> str:
        """What is measured, for people."""
        return "training time, s" if self.is_time else f"{titles.METRICS[self.metric.rpartition('/')[2]]}, %"

    @property
    def scale(self) -> float:
        """Factor from what is stored to what is shown: fractions become percent; seconds stay."""
        return 1.0 if self.is_time else 100.0

    @property
    def is_time(self) -> bool:
        """Whether it is the time of the trainings, which is no metric of a report."""
        return self.metric == "seconds"


@dataclass(frozen=True)
class Protocol:
    """A table or figure of the paper."""

    headline: str
    source: str
    columns: tuple[Column, ...]
    note: str = ""
    """What a reader of the table must know."""

    @property
    def studies(self) -> tuple[str, ...]:
        """Names of the studies that it reads, each once."""
        return tuple(dict.fromkeys(column.study for column in self.columns))


TRIALS = (0, 1, 2, 3, 4)
WITHOUT_FLIPS = DataConfig(flip=False, development="none")  # digits are no longer themselves when mirrored
DETECTION = "tab. Unknown detection performance"

STUDIES = {
    "svhn": Study("SVHN", replace(WITHOUT_FLIPS, name="svhn", num_known=6, unknown_settings=(4,)), TRIALS, "neal"),
    "cifar10": Study(
        "CIFAR10", DataConfig(name="cifar10", num_known=6, unknown_settings=(4,), development="none"), TRIALS, "neal"
    ),
    "cifar-plus": Study(
        "CIFAR10 against CIFAR100",
        DataConfig(name="cifar10", num_known=4, unknown="cifar100", unknown_settings=(10, 50), development="none"),
        TRIALS,
        "neal",
    ),
    "tiny-imagenet": Study(
        "Tiny-ImageNet",
        DataConfig(name="tiny-imagenet", image_size=64, num_known=20, unknown_settings=(180,), development="none"),
        TRIALS,
        "neal",
    ),
    "cifar100": Study("CIFAR100", DataConfig(name="cifar100"), TRIALS),
    "mnist-outliers": Study(
        "MNIST",
        replace(
            WITHOUT_FLIPS,
            name="mnist",
            num_known=10,
            unknown_settings=(),
            outliers=("omniglot", "mnist-noise", "noise"),
        ),
        (0,),
    ),
    "cifar10-outliers": Study(
        "CIFAR10",
        DataConfig(
            name="cifar10",
            num_known=10,
            unknown_settings=(),
            outliers=("imagenet-crop", "imagenet-resize", "lsun-crop", "lsun-resize"),
            development="none",
        ),
        (0,),
    ),
}


def _detection(title: str, study: str, unknown: int) -> Protocol:
    """A column of the table of unknown detection, which is a protocol by itself."""
    data = STUDIES[study].data
    headline = f"Unknown detection on {title}: {data.num_known} classes known, {unknown} not; AUROC"
    return Protocol(headline, DETECTION, (Column(title, study, f"test/unknown_{unknown}/auroc"),))


def _outliers(study: str) -> tuple[Column, ...]:
    """A column per outlier set of a study."""
    names = STUDIES[study].data.outliers
    return tuple(Column(titles.DATA_SETS[name], study, f"{where(name)}/macro_f1") for name in names)


PROTOCOLS = {
    "svhn": _detection("SVHN", "svhn", 4),
    "cifar10": _detection("CIFAR10", "cifar10", 4),
    "cifar+10": _detection("CIFAR+10", "cifar-plus", 10),
    "cifar+50": _detection("CIFAR+50", "cifar-plus", 50),
    "tiny-imagenet": _detection("Tiny-ImageNet", "tiny-imagenet", 180),
    "closed-set": Protocol(
        "Accuracy on the known classes before PROSER and after it",
        "tab. Closed-set accuracy between the plain CNN and PROSER",
        tuple(
            Column(STUDIES[name].title, name, "test/closed_set_accuracy")
            for name in ("svhn", "cifar10", "tiny-imagenet")
        ),
    ),
    "mnist-outliers": Protocol(
        "All digits known, and three sets of outliers; macro-F1 over 11 classes",
        "tab. Open-set recognition on MNIST with various outliers",
        _outliers("mnist-outliers"),
    ),
    "cifar10-outliers": Protocol(
        "All classes of CIFAR10 known, and four sets of outliers; macro-F1 over 11 classes",
        "tab. Open-set recognition results on CIFAR10 with various outliers",
        _outliers("cifar10-outliers"),
        note="Reviewers of the field call these sets easy: resampling leaves traces that images of CIFAR10 lack. The "
        "published rows of CROSR's table are of another macro-F1: its released script calls an image every class whose "
        "probability is at least one half, without a threshold that keeps known images; so do the rows of an own rule.",
    ),
    "cifar100-openness": Protocol(
        "15 classes of CIFAR100 known, 15 to 85 not; macro-F1 against openness",
        "fig. Macro F1 against varying openness",
        tuple(Column(f"{n} unknown", "cifar100", f"test/unknown_{n}/macro_f1") for n in (15, 30, 45, 60, 85)),
        note="The paper prints no numbers in this figure, and says nothing of its classes: here the class ids are "
        "permuted by the class split's index. Its curves of Dummy and PROSER with one dummy, its trade-off grid, the "
        "curve over C and the table over alpha are search spaces: proser sweep cifar100-cpu-paper trade_off "
        "num_dummies mixup_alpha ablation.",
    ),
    "running-time": Protocol(
        "Training time on MNIST, including the pretraining",
        "fig. Running time comparison for different methods on MNIST dataset",
        (Column("MNIST", "mnist-outliers", "seconds"),),
        note="The paper prints no numbers in this figure. OpenMax has the time of its network; the pass over the "
        "training images and the fit that it adds are in the figure of `proser reproduce figures`. Fine-tunes that run "
        "side by side slow each other down; --cluster.max-concurrent 1 makes times compare.",
    ),
}
PAPER_FIGURES = "figures"
"""The name of what is no table: the figures that `proser reproduce` draws by itself."""


def headlines() -> dict[str, str]:
    """All that can be reproduced, by name."""
    found = {name: protocol.headline for name, protocol in PROTOCOLS.items()}
    return found | {PAPER_FIGURES: "The figures of the paper, from trainings on MNIST in a 2-d embedding"}
