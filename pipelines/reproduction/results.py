"""What was measured for a protocol, by method and class split, beside what was published."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipelines.reports.sweep_table import mean, std
from pipelines.reproduction.protocols import Column
from pipelines.reproduction.published import Quoted, quoted
from proser_core.jobs.progress import duration

CONTROLS = {
    **dict.fromkeys(("PROSER", "PROSER, released form", "Dummy", "Mixup"), ("MaxLogit", "CE control, MaxLogit")),
    "PROSER, tuned": ("MaxLogit", "CE control, tuned, MaxLogit"),
}
"""What placeholders have to beat to have earned their place, by method."""


@dataclass(frozen=True)
class Result:
    """One method on one class split of a study: its metrics by name, fractions."""

    study: str
    split_index: int
    method: str
    metrics: dict[str, float]
    seconds: float
    """Of its trainings, the pretraining among them; 0 where nobody took the time."""
    trained_on: tuple[str, ...] = ()
    """The hardware of its trainings, in words."""

    def numbers(self) -> dict[str, float]:
        """The metrics, and `seconds` where somebody took the time."""
        return {**self.metrics, **({"seconds": self.seconds} if self.seconds else {})}


@dataclass(frozen=True)
class Line:
    """A method in one column: values by class split, none where it was only published."""

    method: str
    values: dict[int, float]
    scale: float = 100.0
    """From values to what is shown, in points or seconds."""
    quoted: tuple[Quoted, ...] = ()
    seconds: float = 0.0
    """Of its trainings on one class split, as a mean; 0 where nobody took the time."""

    @property
    def mean(self) -> float:
        """Over class splits, as shown; NaN of none."""
        return self.scale * mean(self.values.values())

    @property
    def std(self) -> float:
        """Of the sample (n - 1), over class splits, as shown; NaN of fewer than two."""
        return self.scale * std(self.values.values())

    def differences(self) -> list[float]:
        """Measured minus each published number, in points; NaN where nothing was measured."""
        return [self.mean - each.mean for each in self.quoted]

    def over(self, other: "Line") -> list[float]:
        """This minus the other on each class split that both have, in points."""
        return [
            self.scale * (self.values[split] - other.values[split])
            for split in sorted(self.values.keys() & other.values.keys())
        ]


@dataclass(frozen=True)
class Block:
    """One column of a protocol with all of its methods: those measured first, then those that were only published."""

    column: Column
    family: str
    lines: list[Line]
    verdicts: list[str] = field(default_factory=list)

    @property
    def splits(self) -> list[int]:
        """Class splits that any method was measured on."""
        return sorted({split for line in self.lines for split in line.values})


def block(column: Column, results: Sequence[Result], family: str) -> Block:
    """The methods of a column, in the order of `results`."""
    published: dict[str, list[Quoted]] = {}
    for each in quoted(column, family):
        published.setdefault(each.method, []).append(each)
    of_study = [result for result in results if result.study == column.study]
    lines = []
    for method in dict.fromkeys([*(result.method for result in of_study), *published]):
        own = [result for result in of_study if result.method == method]
        values = {result.split_index: value for result in own if (value := _value(column, result)) is not None}
        times = [result.seconds for result in own if result.seconds and not column.is_time]
        seconds = mean(times) if times else 0.0
        if values or method in published:
            lines.append(Line(method, values, column.scale, tuple(published.get(method, ())), seconds))
    return Block(column, family, lines, [] if column.is_time else _verdicts(lines))


def _value(column: Column, result: Result) -> float | None:
    return (result.seconds or None) if column.is_time else result.metrics.get(column.metric)


def _verdicts(lines: list[Line]) -> list[str]:
    """How the methods with placeholders stand to their controls, said whichever way it came out, or that a control is
    missing."""
    by_name = {line.method: line for line in lines if line.values}
    found = []
    for method in [name for name in CONTROLS if name in by_name]:
        for control in CONTROLS[method]:
            apart = by_name[method].over(by_name[control]) if control in by_name else []
            found.append(_verdict(method, control, apart))
    return found


def _verdict(method: str, control: str, apart: list[float]) -> str:
    if not apart:
        return f"{method} was held against no {control}: it was not measured on the same class splits."
    points = round(mean(apart), 1)
    spread = "" if math.isnan(std(apart)) else f" ± {std(apart):.1f}"
    if not points:
        return f"{method} is level with {control}{spread and f' (0.0{spread} points)'}."
    won = sum(each > 0 for each in apart)
    on = f", above it on {won} of {len(apart)} class splits" if len(apart) > 1 else ""
    return f"{method} is {abs(points):.1f}{spread} points {'above' if points > 0 else 'below'} {control}{on}."


def rows_of(line: Line) -> list[dict[str, str]]:
    """A line as the rows of a table, in words: one for each published number; what was measured stands in the first."""
    rows = [_published(each, difference) for each, difference in zip(line.quoted, line.differences(), strict=True)] or [
        {"published": "", "family": "", "difference": "", "source": ""}
    ]
    if line.values:
        deviation = "" if math.isnan(line.std) else f" ± {line.std:.1f}"
        rows[0] |= {"measured": f"{line.mean:.1f}{deviation}", "count": str(len(line.values))}
        rows[0] |= {"training": duration(line.seconds) if line.seconds else ""}
    return [{"method": line.method, "measured": "", "count": "", "training": "", **row} for row in rows]


def _published(each: Quoted, difference: float) -> dict[str, str]:
    return {
        "published": f"{each.mean:.1f}" + ("" if each.std is None else f" ± {each.std:.1f}"),
        "family": each.family,
        "difference": "" if math.isnan(difference) else f"{round(difference, 1) + 0.0:+.1f}",
    }
