"""Published numbers of the protocols, in percent, by the family of class lists that they were measured on, or UNKNOWN.

PROSER's paper names GFROSR's lists, which were never published: what is known of it has the family UNKNOWN. So has
Neal's own Tiny-ImageNet, whose draw cannot be made again: the family `neal` has the lists that others use in its place.
His own CIFAR+10 is the family `osrci`, which has the fifty of `neal`. Where a protocol has no class lists the family is
empty.
"""

from dataclasses import dataclass

from pipelines.reproduction.protocols import PROTOCOLS, Column
from proser_core.titles import MSP

UNKNOWN = "unknown"
"""Family of a number whose class lists were not published, or are not those of any family here."""
PAPER = "Zhou et al. 2021 (PROSER)"
QUOTED = "quoted by PROSER's paper"
PRINTED = {"G-OpenMax": "G-OpenMax, interpolated"}
"""Names of methods in print, and here."""


@dataclass(frozen=True)
class Quoted:
    """A number of a method as it was printed, in percent, with its standard deviation over trials where one was."""

    method: str
    mean: float
    std: float | None
    family: str
    source: str


Row = tuple[str, tuple[float | tuple[float, float] | None, ...]]


def _columns(*protocols: str) -> tuple[Column, ...]:
    return tuple(column for name in protocols for column in PROTOCOLS[name].columns)


def _rows(columns: tuple[Column, ...], family: str, source: str, *rows: Row) -> dict[Column, list[Quoted]]:
    found: dict[Column, list[Quoted]] = {column: [] for column in columns}
    for method, values in rows:
        for column, value in zip(columns, values, strict=True):
            if value is not None:
                mean, std = value if isinstance(value, tuple) else (value, None)
                printed = f'{source}, as "{method}"' if method in PRINTED else source
                found[column].append(Quoted(PRINTED.get(method, method), mean, std, family, printed))
    return found


DETECTION = _columns("svhn", "cifar10", "cifar+10", "cifar+50", "tiny-imagenet")
MNIST, CIFAR10 = _columns("mnist-outliers"), _columns("cifar10-outliers")

NEAL = f"Neal et al. 2018, {QUOTED}"
NEAL_OPENMAX = f"{NEAL}; without revision by rank, and without an unknown class"
MADE_AGAIN = _columns("svhn", "cifar10", "cifar+50")
"""Where the family `neal` has the lists of Neal et al."""
WITH_LISTS = _columns("svhn", "cifar10", "tiny-imagenet")
"""Where the family `cssr` has lists."""
PLUS, TINY = _columns("cifar+10", "cifar+50"), _columns("tiny-imagenet")
CVAECAP = "Guo et al. 2021 (CVAECapOSR), as later papers quote it"
DIAS = "Moon et al. 2022 (DIAS), as an index of benchmarks quotes it"
DIAS_README = "README of the code of DIAS (Moon et al. 2022), 800 epochs"
ARPL_CS = "Chen et al. 2021 (ARPL with confusing samples), as later papers agree on it"
VAZE = "Vaze et al. 2022, strong training, as later papers quote it"
CSSR = "Huang et al. 2022 (CSSR), WRN-40-4, as later papers quote it"

_TABLES = (
    _rows(
        MADE_AGAIN,
        "neal",
        NEAL,
        (MSP, ((88.6, 1.4), (67.7, 3.8), 80.5)),
        ("G-OpenMax", ((89.6, 1.7), (67.5, 4.4), 81.9)),
        ("OSRCI", ((91.0, 1.0), (69.9, 3.8), 82.7)),
    ),
    _rows(MADE_AGAIN, "neal", NEAL_OPENMAX, ("OpenMax", ((89.4, 1.3), (69.5, 4.4), 79.6))),
    _rows(PLUS, "osrci", NEAL, (MSP, (81.6, 80.5)), ("G-OpenMax", (82.7, 81.9)), ("OSRCI", (83.8, 82.7))),
    _rows(PLUS, "osrci", NEAL_OPENMAX, ("OpenMax", (81.7, 79.6))),
    _rows(TINY, UNKNOWN, f"{NEAL}, on lists of its own", (MSP, (57.7,)), ("G-OpenMax", (58.0,)), ("OSRCI", (58.6,))),
    _rows(TINY, UNKNOWN, f"{NEAL_OPENMAX}, on lists of its own", ("OpenMax", (57.6,))),
    _rows(DETECTION, "neal", CVAECAP, ("CVAECapOSR", (95.6, 83.5, None, None, 71.5))),
    _rows(DETECTION, "neal", DIAS, ("DIAS", (None, 85.0, 92.0, None, 73.1))),
    _rows(_columns("cifar+50"), "cvaecap", DIAS, ("DIAS", (91.6,))),
    _rows(
        DETECTION,
        UNKNOWN,
        QUOTED,
        ("C2AE", ((89.2, 1.3), (71.1, 0.8), (81.0, 0.5), (80.3, 0.0), (58.1, 1.9))),
        ("CROSR", ((89.9, 1.8), None, None, None, 58.9)),
        ("GFROSR", ((93.5, 1.8), (83.1, 3.9), (91.5, 0.2), (91.3, 0.2), (64.7, 1.2))),
    ),
    _rows(DETECTION, UNKNOWN, PAPER, ("PROSER", ((94.3, 0.6), (89.1, 1.6), (96.0, 0.4), (95.3, 0.3), (69.3, 0.5)))),
    _rows(DETECTION, "arpl", VAZE, ("MaxLogit", (97.1, 93.6, 97.9, 96.5, 83.0))),
    _rows(DETECTION, "arpl", ARPL_CS, ("ARPL+CS", (None, 91.0, 97.1, 95.1, 78.2))),  # of SVHN they print two
    _rows(TINY, "neal", DIAS_README, ("DIAS, 800 epochs", (75.6,)), ("ARPL+CS, 800 epochs", (71.9,))),
    _rows(WITH_LISTS, "cssr", CSSR, ("CSSR", (97.9, 91.3, 82.3)), ("RCSSR", (97.8, 91.5, 81.9))),
    _rows(PLUS, UNKNOWN, CSSR, ("CSSR", (96.3, 96.2)), ("RCSSR", (96.0, 96.3))),
    _rows(_columns("cifar10"), "arpl", "log of the authors' code of ARPL, five trials", (MSP, (86.1,))),
    _rows(_columns("closed-set"), UNKNOWN, PAPER, (MSP, (96.5, 92.8, 52.2)), ("PROSER", (96.4, 92.6, 52.1))),
    _rows(MNIST, "", QUOTED, (MSP, (59.5, 64.1, 82.9)), ("OpenMax", (68.0, 72.0, 82.6)), ("CROSR", (79.3, 82.7, 82.6))),
    _rows(MNIST, "", PAPER, ("PROSER", (86.2, 87.4, 88.2))),
    _rows(
        CIFAR10,
        "",
        QUOTED,
        (MSP, (63.9, 65.3, 64.2, 64.7)),
        ("OpenMax", (66.0, 68.4, 65.7, 66.8)),
        ("OSRCI", (63.6, 63.5, 65.0, 64.8)),
        ("LadderNet + Softmax", (64.0, 64.6, 64.4, 64.7)),
        ("LadderNet + OpenMax", (65.3, 67.0, 65.2, 65.9)),
        ("DHRNet + Softmax", (64.5, 64.9, 65.0, 64.9)),
        ("DHRNet + OpenMax", (65.5, 67.5, 65.6, 66.4)),
        ("CROSR", (72.1, 73.5, 72.0, 74.9)),
        ("GFROSR", (75.7, 79.2, 75.1, 80.5)),
    ),
    _rows(CIFAR10, "", PAPER, ("PROSER", (84.9, 82.4, 86.7, 85.6))),
)


def quoted(column: Column, family: str) -> list[Quoted]:
    """What was published for a column, of this family or of an unknown one."""
    return [each for table in _TABLES for each in table.get(column, []) if each.family in (family, UNKNOWN)]
