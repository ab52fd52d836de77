"""What became of the test images of each class."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from proser_core.data.tasks import OpenSetTask
from proser_core.errors import DataError
from proser_core.naming import UNKNOWN
from proser_core.recognition.metrics import confusion_matrix
from proser_core.recognition.result_tables import table_lines
from proser_core.recognition.scoring import OpenSetScores
from proser_core.titles import percent

LISTED = 30
"""Classes that a table shows, the worst first."""
HEADER = ("class", "test images", "named correctly", "95 % interval", "called unknown", "most often taken for")
RULE = ("---", "---:", "---:", "---:", "---:", "---")


@dataclass(frozen=True)
class ClassReport:
    """Counts of test images: `cells` are true class, called class and how many, where there are any: of thousands
    of classes most pairs have none. Class K is unknown, of all unknown test images. Raises DataError for a class that
    is not there, and for no count."""

    class_names: tuple[str, ...]
    cells: tuple[tuple[int, int, int], ...]

    def __post_init__(self) -> None:
        last = len(self.class_names)
        bad = next((cell for cell in self.cells if min(cell) < 0 or max(cell[:2]) > last), None)
        if bad is not None:
            raise DataError(f"a report of {last} classes counts {bad}; need classes from 0 to {last}, and a count")

    @classmethod
    def of_matrix(cls, class_names: tuple[str, ...], confusion: np.ndarray) -> "ClassReport":
        """The report of counts int64[K+1, K+1] by true and by called class."""
        true, called = np.nonzero(confusion)
        cells = np.stack([true, called, confusion[true, called]], axis=1).tolist()
        return cls(class_names, tuple((row, column, count) for row, column, count in cells))

    @cached_property
    def confusion(self) -> np.ndarray:
        """int64[K+1, K+1]: counts by true and by called class."""
        counts = np.zeros((len(self.names), len(self.names)), np.int64)
        for true, called, count in self.cells:
            counts[true, called] = count
        return counts

    @classmethod
    def of(cls, test: OpenSetScores, task: OpenSetTask) -> "ClassReport | None":
        """The report of a task's test images by the decisions on them; None where there is none."""
        if not len(task.test):
            return None
        counts = confusion_matrix(np.asarray(task.test.targets), test.predictions, task.num_known)
        return cls.of_matrix(task.class_names, counts)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the rows and columns of `confusion`."""
        return (*self.class_names, UNKNOWN)

    def interval(self, number: int) -> tuple[float, float]:
        """Wilson's 95 % interval of the share of a class's images that are named correctly, unknown ones found.
        Raises ValueError for a class without an image."""
        row = self.confusion[number]
        return wilson_interval(int(row[number]), int(row.sum()))

    def rows(self) -> list[tuple[str, ...]]:
        """A row of text under HEADER for each class, the worst first; those without an image last."""
        counts = self.confusion
        sizes, hits = counts.sum(axis=1), np.diag(counts)
        shares = np.divide(hits, sizes, out=np.full(len(sizes), 2.0), where=sizes > 0)
        order = sorted(range(len(sizes)), key=lambda number: (shares[number], self.names[number]))
        present = [number for number in order if sizes[number] or number < len(self.class_names)]
        return [self._row(number, counts[number]) for number in present]

    def _row(self, number: int, counts: np.ndarray) -> tuple[str, ...]:
        name, size, unknown = self.names[number].replace("|", "\\|"), int(counts.sum()), len(self.class_names)
        if not size:
            return (name, "0", "", "", "", "")
        low, high = self.interval(number)
        called = "" if number == unknown else percent(counts[unknown] / size)
        others = counts.copy()
        others[[number, unknown]] = 0
        other = int(others.argmax())
        taken = f"{self.names[other]} ({others[other]})".replace("|", "\\|") if others[other] else ""
        return name, str(size), percent(counts[number] / size), f"{percent(low)} to {percent(high)}", called, taken

    def lines(self) -> list[str]:
        """The report as Markdown, of LISTED classes at most."""
        rows = self.rows()
        more = f" The {LISTED} worst of {len(rows)}." if len(rows) > LISTED else ""
        return [
            "Test images of each class, in percent of these, with Wilson's intervals: a known one is named correctly "
            f"where it is called known, and by its class; an unknown one where it is called unknown.{more}",
            "",
            *table_lines(HEADER, rows[:LISTED], RULE),
        ]


def wilson_interval(hits: int, count: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, `hits` of `count`. Raises ValueError for a count of 0."""
    from scipy.stats import binomtest  # slow to load

    found = binomtest(hits, count).proportion_ci(0.95, method="wilson")
    return float(found.low), float(found.high)
