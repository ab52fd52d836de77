"""Class splits that were published, by family. A result of one family does not stand beside one of another: the lists
differ in difficulty by points of AUC.

Labels are those of torchvision and of the Hugging Face Hub. The order of a list is the order of the network's classes.
"""

from dataclasses import dataclass, field

from proser_core.errors import ConfigError, DataError
from proser_core.naming import look_up

Splits = tuple[tuple[int, ...], ...]

# fmt: off
NEAL = (
    (0, 1, 2, 4, 5, 9),
    (0, 3, 5, 7, 8, 9),
    (0, 1, 5, 6, 7, 8),
    (3, 4, 5, 7, 8, 9),
    (0, 1, 2, 3, 7, 8),
)
NEAL_TINY = (
    (2, 3, 13, 30, 44, 45, 64, 66, 76, 101, 111, 121, 128, 130, 136, 158, 167, 170, 187, 193),
    (4, 11, 32, 42, 51, 53, 67, 84, 87, 104, 116, 140, 144, 145, 148, 149, 155, 168, 185, 193),
    (3, 9, 10, 20, 23, 28, 29, 45, 54, 74, 133, 143, 146, 147, 156, 159, 161, 170, 184, 195),
    (1, 15, 17, 31, 36, 44, 66, 69, 84, 89, 102, 137, 154, 160, 170, 177, 182, 185, 195, 197),
    (4, 14, 16, 33, 34, 39, 59, 69, 77, 92, 101, 103, 130, 133, 147, 161, 166, 168, 172, 173),
)
ARPL_MNIST = (
    (2, 4, 5, 9, 8, 3),
    (3, 2, 6, 9, 4, 0),
    (5, 8, 3, 2, 4, 6),
    (3, 7, 8, 4, 0, 5),
    (6, 3, 4, 9, 8, 2),
)
ARPL_SVHN = (
    (5, 3, 7, 2, 8, 6),
    (3, 8, 7, 6, 2, 5),
    (8, 9, 4, 7, 2, 1),
    (3, 8, 2, 5, 0, 6),
    (4, 9, 2, 7, 1, 0),
)
ARPL_CIFAR10 = (
    (0, 6, 4, 9, 1, 7),
    (7, 6, 4, 9, 0, 1),
    (1, 5, 7, 3, 9, 4),
    (8, 6, 1, 9, 0, 7),
    (2, 4, 1, 7, 9, 6),
)
ARPL_TINY = (
    (108, 147, 17, 58, 193, 123, 72, 144, 75, 167, 134, 14, 81, 171, 44, 197, 152, 66, 1, 133),
    (198, 161, 91, 59, 57, 134, 61, 184, 90, 35, 29, 23, 199, 38, 133, 19, 186, 18, 85, 67),
    (177, 0, 119, 26, 78, 80, 191, 46, 134, 92, 31, 152, 27, 60, 114, 50, 51, 133, 162, 93),
    (98, 36, 158, 177, 189, 157, 170, 191, 82, 196, 138, 166, 43, 13, 152, 11, 75, 174, 193, 190),
    (95, 6, 145, 153, 0, 143, 31, 23, 189, 81, 20, 21, 89, 26, 36, 170, 102, 177, 108, 169),
)
RELEASED = ((8, 4, 7, 2, 1, 9),)
GCM = (
    (3, 7, 8, 2, 4, 6),
    (7, 1, 0, 9, 4, 6),
    (8, 1, 6, 7, 2, 4),
    (7, 3, 8, 4, 6, 1),
    (2, 8, 7, 3, 5, 1),
)
CSSR = (
    (2, 3, 4, 5, 6, 7),
    (1, 2, 4, 6, 7, 8),
    (0, 3, 4, 5, 6, 8),
    (0, 1, 4, 6, 8, 9),
    (0, 2, 3, 5, 6, 7),
)
CSSR_TINY = (
    (0, 7, 8, 27, 29, 32, 42, 51, 62, 72, 76, 91, 95, 163, 171, 173, 178, 186, 188, 195),
    (12, 27, 39, 41, 42, 49, 63, 66, 71, 76, 89, 97, 100, 106, 118, 127, 148, 181, 188, 193),
    (7, 29, 42, 46, 50, 56, 58, 59, 61, 63, 65, 66, 72, 88, 103, 136, 145, 154, 172, 199),
    (2, 3, 24, 28, 43, 44, 68, 71, 73, 81, 113, 136, 138, 141, 147, 159, 164, 169, 178, 199),
    (2, 9, 26, 47, 55, 75, 80, 81, 98, 116, 119, 121, 134, 135, 156, 159, 164, 184, 190, 191),
)
CAC_TINY = (
    (192, 112, 145, 107, 91, 180, 144, 193, 10, 125, 186, 28, 72, 124, 54, 77, 157, 169, 104, 166),
    (156, 157, 167, 175, 153, 11, 147, 0, 199, 171, 132, 60, 87, 190, 101, 111, 193, 71, 131, 192),
    (28, 15, 103, 33, 90, 167, 61, 13, 124, 159, 49, 12, 54, 78, 82, 107, 80, 25, 140, 46),
    (128, 132, 123, 72, 154, 35, 86, 10, 188, 28, 85, 89, 91, 82, 116, 65, 96, 41, 134, 25),
    (102, 79, 47, 106, 59, 93, 145, 10, 62, 175, 76, 183, 48, 130, 38, 186, 44, 8, 29, 26),
)
ANIMALS = (
    1, 2, 3, 4, 6, 7, 11, 14, 15, 18, 19, 21, 24, 26, 27, 29, 30, 31, 32, 34, 35, 36, 38, 42, 43, 44, 45, 46, 50, 55,
    63, 64, 65, 66, 67, 72, 73, 74, 75, 77, 78, 79, 80, 88, 91, 93, 95, 97, 98, 99,
)  # of CIFAR100, people among them
NEAL_PLUS_TEN = (
    (26, 31, 34, 44, 45, 63, 65, 77, 93, 98),
    (7, 11, 66, 75, 77, 93, 95, 97, 98, 99),
    (2, 11, 15, 24, 32, 34, 63, 88, 93, 95),
    (1, 11, 38, 42, 44, 45, 63, 64, 66, 67),
    (3, 15, 19, 21, 42, 46, 66, 72, 78, 98),
)
ARPL_PLUS_KNOWN = ((4, 7, 9, 1), (6, 7, 1, 9), (9, 6, 1, 7), (6, 4, 9, 1), (1, 0, 9, 8))
ARPL_PLUS = (
    (
        30, 25, 1, 9, 8, 0, 46, 52, 49, 71, 27, 94, 29, 77, 88, 26, 69, 48, 75, 5, 59, 93, 39, 57, 45, 40, 78, 20, 98,
        47, 66, 70, 91, 76, 41, 83, 99, 32, 53, 72, 2, 95, 21, 73, 84, 68, 35, 11, 55, 60,
    ),
    (
        41, 9, 49, 40, 73, 60, 48, 30, 95, 71, 65, 97, 86, 24, 45, 67, 2, 3, 91, 98, 79, 29, 62, 82, 33, 76, 0, 35, 5,
        16, 54, 11, 99, 52, 85, 1, 25, 66, 28, 84, 23, 56, 75, 46, 21, 72, 55, 68, 8, 69,
    ),
    (
        8, 9, 49, 40, 73, 60, 48, 95, 30, 71, 20, 83, 65, 97, 94, 2, 93, 16, 67, 29, 62, 33, 24, 98, 5, 86, 35, 54, 0,
        91, 52, 66, 85, 84, 56, 11, 1, 76, 25, 55, 21, 99, 72, 41, 23, 75, 28, 68, 69, 46,
    ),
    (
        95, 60, 30, 73, 46, 49, 68, 99, 8, 71, 92, 82, 77, 64, 5, 33, 62, 56, 70, 0, 20, 28, 67, 14, 84, 53, 91, 29,
        85, 2, 52, 83, 75, 35, 11, 21, 72, 98, 55, 1, 41, 76, 25, 66, 69, 9, 48, 54, 40, 23,
    ),
    (
        33, 2, 3, 97, 46, 21, 64, 63, 88, 43, 47, 6, 19, 0, 62, 93, 59, 65, 54, 70, 34, 55, 23, 38, 72, 76, 53, 31,
        78, 96, 77, 27, 92, 18, 82, 50, 98, 32, 1, 75, 83, 4, 51, 35, 80, 11, 74, 66, 36, 42,
    ),
)
GCM_PLUS = (
    (
        27, 46, 98, 38, 72, 31, 36, 66, 3, 97, 75, 67, 42, 32, 14, 93, 6, 88, 11, 1, 44, 35, 73, 19, 18, 78, 15, 4, 50,
        65, 64, 55, 30, 80, 26, 2, 7, 34, 79, 43, 74, 29, 45, 91, 37, 99, 95, 63, 24, 21,
    ),
    (
        98, 46, 14, 1, 7, 73, 3, 79, 93, 11, 37, 29, 2, 74, 91, 77, 55, 50, 18, 80, 63, 67, 4, 45, 95, 30, 75, 97, 88,
        36, 31, 27, 65, 32, 43, 72, 6, 26, 15, 42, 19, 34, 38, 66, 35, 21, 24, 99, 78, 44,
    ),
    (
        79, 98, 67, 7, 77, 42, 36, 65, 26, 64, 66, 73, 75, 3, 32, 14, 35, 6, 24, 21, 55, 34, 30, 43, 93, 38, 19, 99, 72,
        97, 78, 18, 31, 63, 29, 74, 91, 4, 27, 46, 2, 88, 45, 15, 11, 1, 95, 50, 80, 44,
    ),
    (
        46, 77, 29, 24, 65, 66, 79, 21, 1, 95, 36, 88, 27, 99, 67, 19, 75, 42, 2, 73, 32, 98, 72, 97, 78, 11, 14, 74,
        50, 37, 26, 64, 44, 30, 31, 18, 38, 4, 35, 80, 45, 63, 93, 34, 3, 43, 6, 55, 91, 15,
    ),
    (
        21, 95, 64, 55, 50, 24, 93, 75, 27, 36, 73, 63, 19, 98, 46, 1, 15, 72, 42, 78, 77, 29, 74, 30, 14, 38, 80, 45,
        4, 26, 31, 11, 97, 7, 66, 65, 99, 34, 6, 18, 44, 3, 35, 88, 43, 91, 32, 67, 37, 79,
    ),
)
CVAECAP_PLUS = (
    (
        1, 2, 7, 9, 10, 12, 15, 18, 21, 23, 26, 30, 32, 33, 34, 36, 37, 39, 40, 42, 44, 45, 46, 47, 49, 50, 51, 52, 55,
        56, 59, 60, 61, 63, 65, 66, 70, 72, 73, 74, 76, 78, 80, 83, 87, 91, 92, 96, 98, 99,
    ),
    (
        0, 2, 4, 5, 9, 12, 14, 17, 18, 20, 21, 23, 24, 25, 31, 32, 33, 35, 39, 43, 45, 49, 50, 51, 52, 54, 55, 56, 60,
        64, 65, 66, 68, 70, 71, 73, 74, 77, 78, 79, 80, 82, 83, 86, 91, 93, 94, 96, 97, 98,
    ),
    (
        0, 4, 10, 11, 12, 14, 15, 17, 18, 21, 23, 26, 27, 28, 29, 31, 32, 33, 36, 39, 40, 42, 43, 46, 47, 51, 53, 56,
        57, 59, 60, 64, 66, 71, 73, 74, 75, 76, 78, 79, 80, 83, 87, 91, 92, 93, 94, 95, 96, 99,
    ),
    (
        0, 2, 5, 6, 9, 10, 11, 12, 14, 16, 18, 19, 21, 22, 23, 26, 27, 28, 29, 31, 33, 35, 36, 37, 38, 39, 40, 43, 45,
        49, 52, 56, 59, 61, 62, 63, 64, 65, 71, 74, 75, 78, 80, 82, 86, 87, 91, 93, 94, 96,
    ),
    (
        0, 1, 4, 6, 7, 12, 15, 16, 17, 19, 20, 21, 22, 23, 26, 27, 28, 32, 39, 40, 42, 43, 44, 47, 49, 50, 52, 53, 54,
        55, 56, 59, 61, 62, 63, 65, 66, 67, 68, 73, 74, 77, 82, 83, 86, 87, 93, 94, 97, 98,
    ),
)
# fmt: on


NEAL_PLUS = tuple(ten + tuple(animal for animal in ANIMALS if animal not in ten) for ten in NEAL_PLUS_TEN)
NO_ANIMALS = ((0, 1, 8, 9),) * 5
"""The classes of CIFAR10 that are known against CIFAR100, in most families the same in all trials."""
PLUS = {10: "CIFAR+10", 50: "CIFAR+50"}


@dataclass(frozen=True)
class Against:
    """Known classes of one data set and unknown ones of another, one list each a trial; the first so many classes of
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
    """Known classes by data set, one list a trial; all other classes of the data set are unknown.

    `against` has the lists for unknown classes of another data set, by both names. `defects` are told to whoever uses
    the family, by data set, or by both names.
    """

    name: str
    source: str
    known: dict[str, Splits]
    against: dict[tuple[str, str], Against] = field(default_factory=dict)
    defects: dict[str | tuple[str, str], str] = field(default_factory=dict)

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


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "neal",
            "Neal et al. 2018, counterfactual-open-set; also in CAC, CVAECap and DIAS",
            {"mnist": NEAL, "svhn": NEAL, "cifar10": NEAL, "tiny-imagenet": NEAL_TINY},
            {("cifar10", "cifar100"): Against(NO_ANIMALS, NEAL_PLUS, PLUS)},
            {
                ("cifar10", "cifar100"): "the known classes, and the 50 unknown ones, are the same in all trials; only "
                "the 10 differ, drawn by CAC, CVAECap and DIAS, where Neal et al. have one set of 10",
                "tiny-imagenet": "drawn by CVAECap and DIAS, since the draw of Neal et al. cannot be made again",
            },
        ),
        Family(
            "osrci",
            "Neal et al. 2018 (OSRCI), where their own code differs from what others quote as theirs: one trial",
            {},
            {("cifar10", "cifar100"): Against(NO_ANIMALS[:1], (ANIMALS,), PLUS)},
        ),
        Family(
            "cvaecap",
            "Guo et al. 2021 (CVAECapOSR) and Moon et al. 2022 (DIAS), where they differ from family neal",
            {},
            {("cifar10", "cifar100"): Against(NO_ANIMALS, CVAECAP_PLUS, {50: PLUS[50]})},
            {
                ("cifar10", "cifar100"): "22 to 25 of the 50 unknown classes are no animals, against what the field's "
                "protocol says; for CIFAR+10 these authors have the ten of neal, which the 50 do not contain"
            },
        ),
        Family(
            "arpl",
            "Chen et al. 2021 (ARPL) and Vaze et al. 2022 (MLS)",
            {"mnist": ARPL_MNIST, "svhn": ARPL_SVHN, "cifar10": ARPL_CIFAR10, "tiny-imagenet": ARPL_TINY},
            {("cifar10", "cifar100"): Against(ARPL_PLUS_KNOWN, ARPL_PLUS, PLUS)},
            {
                (
                    "cifar10",
                    "cifar100",
                ): "trials 1 and 2 know the same four classes; animals are among the known ones of "
                "trials 0 to 3, and most unknown ones are none, against what the field's protocol says",
                "svhn": "trials 0 and 1 know the same six classes, so that they count twice in a mean",
                "cifar10": "trials 0 and 1 know the same six classes, so that they count twice in a mean",
            },
        ),
        Family(
            "proser",
            "seed 9 of the authors' released code (Zhou et al. 2021), the one run that is released; the paper has "
            "other lists, which were never published",
            {"cifar10": RELEASED},
        ),
        Family(
            "gcm",
            "Yue et al. 2021 (GCM-CF); Moon et al. 2022 (DIAS) for macro-F1",
            {"mnist": GCM, "svhn": GCM, "cifar10": GCM},
            {("cifar10", "cifar100"): Against(NO_ANIMALS, GCM_PLUS, PLUS)},
            {
                ("cifar10", "cifar100"): "the known classes are the same in all trials; a house is among the 50 "
                "animals in trials 0, 1, 3 and 4"
            },
        ),
        Family(
            "cssr",
            "Huang et al. 2022 (CSSR)",
            {"cifar10": CSSR, "svhn": CSSR, "tiny-imagenet": CSSR_TINY},
        ),
        Family(
            "cac",
            "Miller et al. 2021 (CAC)",
            {"tiny-imagenet": CAC_TINY},
            {},
            {"tiny-imagenet": "the authors' own checkpoints were trained on other lists"},
        ),
    )
}


def published_lists(
    family: str, data_set: str, unknown: str, trial: int, *, num_classes: int, num_foreign: int = 0
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Class ids that are known in a trial, and those of the data set `unknown` that are not; without that, none.

    Raises ConfigError for a family, a data set or a trial that is not there, DataError where a list of any trial has
    a class twice, in two roles, or one that is none of the data set's `num_classes` (of the other's `num_foreign`).
    """
    found = look_up("split family", family, FAMILIES)
    against = found.against.get((data_set, unknown))
    known = found.known.get(data_set) if not unknown else None if against is None else against.known
    if known is None:
        asked = f"{data_set} against {unknown}" if unknown else data_set
        raise ConfigError(f"data.split_family {family} has no lists for {asked}; it has {', '.join(found.has)}")
    if trial >= len(known):
        trials = f"trials 0 to {len(known) - 1}" if len(known) > 1 else "only trial 0"
        raise ConfigError(
            f"split family {family} has {trials} of {data_set}, and no class split {trial}; choose another "
            "(--data.split-index, or --split-indices of proser sweep and proser reproduce)"
        )
    foreign = against.unknown if against is not None else ((),) * len(known)
    if len(foreign) != len(known):
        raise DataError(
            f"split family {family} has {len(known)} trials of known classes for {data_set} against {unknown}, and "
            f"{len(foreign)} of unknown ones; mend {__file__}"
        )
    for number, (own, others) in enumerate(zip(known, foreign, strict=True)):
        found_wrong = (
            _fault(own, "known", data_set, num_classes)
            or _fault(others, "unknown", unknown, num_foreign)
            or _shared(own, others if unknown == data_set else (), data_set)
        )
        if found_wrong:
            raise DataError(f"split family {family}, trial {number}: {found_wrong}; mend {__file__}")
    return known[trial], foreign[trial]


def _fault(classes: tuple[int, ...], role: str, data_set: str, count: int) -> str:
    """What is wrong with a list, naming the class; empty where nothing is."""
    for class_id in classes:
        if not 0 <= class_id < count:
            return f"class {class_id} is {role}, and {data_set} has the classes 0 to {count - 1}"
        if classes.count(class_id) > 1:
            return f"class {class_id} of {data_set} is {role} twice"
    return ""


def _shared(known: tuple[int, ...], unknown: tuple[int, ...], data_set: str) -> str:
    both = sorted(set(known) & set(unknown))
    return f"class {both[0]} of {data_set} is known and unknown" if both else ""


def defect_of(family: str, data_set: str, unknown: str = "") -> str:
    """What whoever reads the results must know of these lists; empty where there is nothing."""
    key = (data_set, unknown) if unknown else data_set
    return FAMILIES[family].defects.get(key, "") if family in FAMILIES else ""
