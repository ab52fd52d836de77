"""Measured and published results of a protocol, by method and class split."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.reports.sweep_table import mean, paired, std
from pipelines.reproduction.protocols import Column
from pipelines.reproduction.published import Quoted, quoted
from proser_core.baselines.controls import OWN_RULE
from proser_core.titles import CONTROL, MAX_LOGIT, PROSER, best_of, duration, scored

PLACEHOLDERS = (PROSER, f"{PROSER}, released form", "Dummy", "Mixup")
BASELINES = {
    **dict.fromkeys(PLACEHOLDERS, (MAX_LOGIT, scored(CONTROL, MAX_LOGIT))),
    **{
        scored(PROSER, detail): (MAX_LOGIT, scored(scored(CONTROL, detail), MAX_LOGIT))
        for detail in ("tuned", "from scratch")
    },
}
"""What placeholders have to beat to have earned their place, by method."""
OWN_SCHEDULE = "networks of methods' own"
"""The fact of a report that names these networks and their schedule."""


@dataclass(frozen=True)
class SplitResult:
    """One method on one class split of a study: its metrics by name, fractions."""

    study: str
    split_index: int
    method: str
    metrics: dict[str, float]
    seconds: float
    """Seconds of its trainings, the pretraining among them."""
    trained_on: tuple[str, ...] = ()
    """The hardware of its trainings, in words."""
    own: dict[str, str] = field(default_factory=dict)
    """The `network` by name, and the `key` of its folder, where it is one of the method's own; else empty."""
    choice: str = ""
    """How its score was chosen, in words; empty where the method decides it."""

    def numbers(self) -> dict[str, float]:
        """The metrics, and `seconds`."""
        return {**self.metrics, "seconds": self.seconds}


@dataclass(frozen=True)
class MethodRow:
    """A method in one column: values by class split, none where it was only published."""

    method: str
    values: dict[int, float]
    scale: float = 100.0
    """Factor from values to what is shown, in points or seconds."""
    quoted: tuple[Quoted, ...] = ()
    seconds: float = 0.0
    """Mean seconds of its trainings on one class split; 0 where it was only published, or of a column of times."""
    by_own_rule: bool = False
    """Whether it decides by a rule of its authors, and not by a threshold that keeps known images."""

    @property
    def mean(self) -> float:
        """Over class splits, as shown; NaN of none."""
        return self.scale * mean(self.values.values())

    @property
    def std(self) -> float:
        """Standard deviation of the sample (n - 1), over class splits, as shown; NaN of fewer than two."""
        return self.scale * std(self.values.values())

    def over(self, other: "MethodRow") -> list[float]:
        """This minus the other on each class split that both have, in points."""
        return [self.scale * each for each in paired(self.values, other.values).values()]


@dataclass(frozen=True)
class TableColumn:
    """One column of a protocol with all of its methods: those measured first, then those that were only published."""

    spec: Column
    family: str
    rows: list[MethodRow]
    verdicts: list[str] = field(default_factory=list)

    @property
    def splits(self) -> list[int]:
        """Class splits that any method was measured on."""
        return sorted({split for row in self.rows for split in row.values})

    @property
    def best(self) -> list[MethodRow]:
        """The best of what was measured on every class split, since splits differ in difficulty, and by the one rule.
        Published numbers are of other trainings, and often of other class lists."""
        rows = [row for row in self.rows if sorted(row.values) == self.splits and not row.by_own_rule]
        found = best_of(self.spec.metric, [row.mean / 100 for row in rows])
        return [row for row, is_best in zip(rows, found, strict=True) if is_best]


def table_column(column: Column, results: Sequence[SplitResult], family: str) -> TableColumn:
    """The methods of a column, in the order of `results`."""
    published: dict[str, list[Quoted]] = {}
    for each in quoted(column, family):
        published.setdefault(each.method, []).append(each)
    of_study = [result for result in results if result.study == column.study]
    rows = []
    for method in dict.fromkeys([*(result.method for result in of_study), *published]):
        own = [result for result in of_study if result.method == method]
        numbers = {result.split_index: result.numbers() for result in own}
        values = {split: found[column.metric] for split, found in numbers.items() if column.metric in found}
        seconds = mean(result.seconds for result in own) if own and not column.is_time else 0.0
        if values or method in published:
            rows.append(MethodRow(method, values, column.scale, tuple(published.get(method, ())), seconds))
        by_rule = f"{OWN_RULE}/{column.metric}"
        values = {split: found[by_rule] for split, found in numbers.items() if by_rule in found}
        if values:
            rows.append(MethodRow(scored(method, "own rule"), values, column.scale, by_own_rule=True))
    return TableColumn(column, family, rows, [] if column.is_time else _verdicts(rows))


def _verdicts(rows: list[MethodRow]) -> list[str]:
    """How each method with placeholders compares with its baselines, or that they cannot be compared."""
    by_name = {row.method: row for row in rows if row.values}
    pairs = [(name, other) for name, others in BASELINES.items() if name in by_name for other in others]
    return [
        _verdict(name, other, by_name[name].over(by_name[other]))
        if other in by_name
        else f"{name} is not compared with {other}, which was not measured."
        for name, other in pairs
    ]


def _verdict(method: str, baseline: str, differences: list[float]) -> str:
    if not differences:
        return f"{method} cannot be compared with {baseline}: they were not measured on the same class splits."
    points = round(mean(differences), 1)
    spread = "" if math.isnan(std(differences)) else f" ± {std(differences):.1f}"
    if not points:
        return f"{method} is level with {baseline}{spread and f' (0.0{spread} points)'}."
    won = sum(each > 0 for each in differences)
    on = f", above it on {won} of {len(differences)} class splits" if len(differences) > 1 else ""
    return f"{method} is {abs(points):.1f}{spread} points {'above' if points > 0 else 'below'} {baseline}{on}."


def cells_of(row: MethodRow) -> list[dict[str, str]]:
    """A row in words, once per published number; what was measured stands in the first."""
    empty = dict.fromkeys(("measured", "count", "training", "published", "family", "difference"), "")
    cells = [{**empty, "method": row.method, **_published(each, row.mean)} for each in row.quoted]
    cells = cells or [{**empty, "method": row.method}]
    if row.values:
        deviation = "" if math.isnan(row.std) else f" ± {row.std:.1f}"
        cells[0] |= {"measured": f"{row.mean:.1f}{deviation}", "count": str(len(row.values))}
        cells[0] |= {"training": duration(row.seconds) if row.seconds else ""}
    return cells


def _published(each: Quoted, measured: float) -> dict[str, str]:
    return {
        "published": f"{each.mean:.1f}" + ("" if each.std is None else f" ± {each.std:.1f}"),
        "family": each.family,
        "difference": "" if math.isnan(measured) else f"{round(measured - each.mean, 1) + 0.0:+.1f}",
    }
