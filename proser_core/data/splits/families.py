"""Class splits that were published, by family. A result of one family does not stand beside one of another: the lists
differ in difficulty by points of AUROC.

Labels are those of torchvision and of the Hugging Face Hub. The order of a list is the order of the network's classes.
"""

from dataclasses import dataclass, field

from proser_core.config import DataConfig
from proser_core.data.splits import lists as split_lists
from proser_core.data.splits.lists import Splits
from proser_core.errors import ConfigError, DataError
from proser_core.naming import Named

CIFAR_PAIR = ("cifar10", "cifar100")
PLUS = {10: "CIFAR+10", 50: "CIFAR+50"}


@dataclass(frozen=True)
class Against:
    """Known classes of one data set and unknown ones of another, one list each per trial; the first so many classes of
    an unknown list are a setting.
    """

    known: Splits
    unknown: Splits
    settings: dict[int, str] = field(default_factory=dict)
    """Numbers of unknown classes that were published, each as the field calls it."""

    @property
    def called(self) -> str:
        """The settings, for people."""
        return " and ".join(self.settings.values())


@dataclass(frozen=True)
class Family:
    """Known classes by data set, one list per trial; all other classes of the data set are unknown.

    `against` has the lists for unknown classes of another data set, by both names. `defects`, which the reports
    state, are by data set, or by both names.
    """

    name: str
    source: str
    known: dict[str, Splits]
    against: dict[tuple[str, str], Against] = field(default_factory=dict)
    defects: dict[str | tuple[str, str], str] = field(default_factory=dict)

    def lists(self, data_set: str, unknown: str) -> Against | None:
        """The lists for a data set, or for its classes against those of the data set `unknown`."""
        if unknown or data_set not in self.known:
            return self.against.get((data_set, unknown))
        known = self.known[data_set]
        return Against(known, ((),) * len(known))

    @property
    def has(self) -> list[str]:
        """What there are lists for, for people."""
        pairs = {f"{one} against {other}": against.called for (one, other), against in self.against.items()}
        return [*self.known, *(f"{pair} ({called})" if called else pair for pair, called in pairs.items())]

    @property
    def defects_in_words(self) -> dict[str, str]:
        """The defects, each by the names of all that have it."""
        of: dict[str, list[str]] = {}
        for key, defect in self.defects.items():
            of.setdefault(defect, []).append(key if isinstance(key, str) else " against ".join(key))
        return {" and ".join(names): defect for defect, names in of.items()}


FAMILIES: dict[str, Family] = Named(
    "split family",
    (
        Family(
            "neal",
            "Neal et al. 2018, counterfactual-open-set; also in CAC, CVAECap and DIAS",
            {
                "mnist": split_lists.NEAL,
                "svhn": split_lists.NEAL,
                "cifar10": split_lists.NEAL,
                "tiny-imagenet": split_lists.NEAL_TINY,
            },
            {CIFAR_PAIR: Against(split_lists.NO_ANIMALS, split_lists.NEAL_PLUS, PLUS)},
            {
                CIFAR_PAIR: "the known classes, and the 50 unknown ones, are the same in all trials; only "
                "the 10 differ, drawn by CAC, CVAECap and DIAS, where Neal et al. have one set of 10",
                "tiny-imagenet": "drawn by CVAECap and DIAS, since the draw of Neal et al. cannot be made again",
            },
        ),
        Family(
            "osrci",
            "Neal et al. 2018 (OSRCI), where their own code differs from what others quote as theirs: one trial",
            {},
            {CIFAR_PAIR: Against(split_lists.NO_ANIMALS[:1], (split_lists.ANIMALS,), PLUS)},
        ),
        Family(
            "cvaecap",
            "Guo et al. 2021 (CVAECapOSR) and Moon et al. 2022 (DIAS), where they differ from family neal",
            {},
            {CIFAR_PAIR: Against(split_lists.NO_ANIMALS, split_lists.CVAECAP_PLUS, {50: PLUS[50]})},
            {
                CIFAR_PAIR: "22 to 25 of the 50 unknown classes are no animals, against what the field's "
                "protocol says; for CIFAR+10 these authors have the ten of neal, which the 50 do not contain"
            },
        ),
        Family(
            "arpl",
            "Chen et al. 2021 (ARPL) and Vaze et al. 2022 (MLS)",
            {
                "mnist": split_lists.ARPL_MNIST,
                "svhn": split_lists.ARPL_SVHN,
                "cifar10": split_lists.ARPL_CIFAR10,
                "tiny-imagenet": split_lists.ARPL_TINY,
            },
            {CIFAR_PAIR: Against(split_lists.ARPL_PLUS_KNOWN, split_lists.ARPL_PLUS, PLUS)},
            {
                CIFAR_PAIR: "trials 1 and 2 know the same four classes; animals are among the known ones of "
                "trials 0 to 3, and most unknown ones are none, against what the field's protocol says",
                "svhn": "trials 0 and 1 know the same six classes, so that they count twice in a mean",
                "cifar10": "trials 0 and 1 know the same six classes, so that they count twice in a mean",
            },
        ),
        Family(
            "proser",
            "seed 9 of the authors' released code (Zhou et al. 2021), the one run that is released; the paper has "
            "other lists, which were never published",
            {"cifar10": split_lists.RELEASED},
        ),
        Family(
            "gcm",
            "Yue et al. 2021 (GCM-CF); Moon et al. 2022 (DIAS) for macro-F1",
            {"mnist": split_lists.GCM, "svhn": split_lists.GCM, "cifar10": split_lists.GCM},
            {CIFAR_PAIR: Against(split_lists.NO_ANIMALS, split_lists.GCM_PLUS, PLUS)},
            {
                CIFAR_PAIR: "the known classes are the same in all trials; a house is among the 50 "
                "animals in trials 0, 1, 3 and 4"
            },
        ),
        Family(
            "cssr",
            "Huang et al. 2022 (CSSR)",
            {"cifar10": split_lists.CSSR, "svhn": split_lists.CSSR, "tiny-imagenet": split_lists.CSSR_TINY},
        ),
        Family(
            "cac",
            "Miller et al. 2021 (CAC)",
            {"tiny-imagenet": split_lists.CAC_TINY},
            {},
            {"tiny-imagenet": "the authors' own checkpoints were trained on other lists"},
        ),
    ),
)


def published_lists(
    config: DataConfig, num_classes: int, num_foreign: int = 0
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Class ids that are known in a family's trial, and those of the data set `data.unknown` that are not; without
    that, none.

    Raises ConfigError for a family, a data set or a trial that does not exist, DataError where a list of any trial has
    a class twice, or one that is none of the data set's `num_classes` (of the other's `num_foreign`).
    """
    family = FAMILIES[config.split_family]
    lists = family.lists(config.name, config.unknown)
    if lists is None:
        asked = f"{config.name} against {config.unknown}" if config.unknown else config.name
        raise ConfigError(f"data.split_family {family.name} has no lists for {asked}; it has {', '.join(family.has)}")
    if config.split_index >= len(lists.known):
        trials = f"trials 0 to {len(lists.known) - 1}" if len(lists.known) > 1 else "only trial 0"
        raise ConfigError(
            f"split family {family.name} has {trials} of {config.name}, and no class split {config.split_index}; "
            "choose another (--data.split-index, or --split-indices of proser sweep and proser reproduce)"
        )
    if len(lists.unknown) != len(lists.known):
        raise DataError(
            f"split family {family.name} has {len(lists.known)} trials of known classes for {config.name} against "
            f"{config.unknown}, and {len(lists.unknown)} of unknown ones; correct {split_lists.__file__}"
        )
    for number, (known, unknown) in enumerate(zip(lists.known, lists.unknown, strict=True)):
        fault = _fault(known, "known", config.name, num_classes) or _fault(
            unknown, "unknown", config.unknown, num_foreign
        )
        if fault:
            raise DataError(f"split family {family.name}, trial {number}: {fault}; correct {split_lists.__file__}")
    return lists.known[config.split_index], lists.unknown[config.split_index]


def trial_seed(data: DataConfig, seed: int) -> int:
    """The seed of one of several trials: one more for each earlier trial of its family with the same known classes in
    the same order, since its training would be the same once more."""
    lists = FAMILIES[data.split_family].lists(data.name, data.unknown) if data.split_family in FAMILIES else None
    known = lists.known if lists else ()
    return seed + known[: data.split_index].count(known[data.split_index]) if data.split_index < len(known) else seed


def _fault(classes: tuple[int, ...], role: str, data_set: str, count: int) -> str:
    """What is wrong with a list, naming the class; empty where nothing is."""
    for class_id in classes:
        if not 0 <= class_id < count:
            return f"class {class_id} is {role}, and {data_set} has the classes 0 to {count - 1}"
        if classes.count(class_id) > 1:
            return f"class {class_id} of {data_set} is {role} twice"
    return ""


def defect_of(family: str, data_set: str, unknown: str = "") -> str:
    """What is wrong with these lists, for readers of the results; empty where nothing is."""
    key = (data_set, unknown) if unknown else data_set
    return FAMILIES[family].defects.get(key, "") if family in FAMILIES else ""
