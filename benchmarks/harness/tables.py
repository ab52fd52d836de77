"""Tables and targets, as Markdown for people and as plain values for JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.harness.timing import Samples, ratios, spread
from proser_core.recognition.result_tables import table_lines

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """A title, named columns, and rows of numbers and words; None is a cell that was not measured."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """The table as GitHub renders it, with its notes below."""
        lines = table_lines(self.columns, [[_text(cell) for cell in row] for row in self.rows])
        return "\n".join([f"**{self.title}**", "", *lines, "", *(f"{note}\n" for note in self.notes)])


@dataclass(frozen=True)
class Target:
    """What was asked for and what was found; `measured` is None where this machine cannot tell."""

    what: str
    measured: float | None
    bound: float
    at_least: bool = True
    unit: str = "x"

    @property
    def verdict(self) -> str:
        """met, missed or not measured."""
        if self.measured is None:
            return "not measured"
        met = self.measured >= self.bound if self.at_least else self.measured <= self.bound
        return "met" if met else "missed"


@dataclass(frozen=True)
class Report:
    """What one benchmark returns."""

    tables: list[Table]
    targets: list[Target] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Nested plain values."""
        targets = [asdict(target) | {"verdict": target.verdict} for target in self.targets]
        return {"tables": [asdict(table) for table in self.tables], "targets": targets}


def comparison(title: str, samples: Samples, against: str, notes: tuple[str, ...] = ()) -> Table:
    """Milliseconds of each variant, and how many times as fast as `against` it is, round by round."""
    rows: list[tuple[Cell, ...]] = []
    for name in samples:
        milliseconds = spread([1000 * value for value in samples[name]])
        rows.append((name, *milliseconds, *spread(ratios(samples, against, name))))
    columns = ("variant", "median ms", "q1", "q3", "times as fast", "q1", "q3")
    return Table(f"{title} (against: {against})", columns, rows, notes)


def rates(samples: Samples, images: int) -> Table:
    """Images per second of each variant, one call of which takes so many."""
    rows = [(name, *spread([images / seconds for seconds in values])) for name, values in samples.items()]
    return Table("Images per second", ("variant", "median", "q1", "q3"), rows)


def targets_table(targets: list[Target]) -> Table:
    """All targets with their verdict."""
    rows = [
        (t.what, t.measured, f"{'>=' if t.at_least else '<='} {_text(t.bound)} {t.unit}".rstrip(), t.verdict)
        for t in targets
    ]
    return Table("Targets", ("what", "measured", "target", "verdict"), rows)


def _text(cell: Cell) -> str:
    if cell is None:
        return "not measured"
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.0f}" if abs(cell) >= 999.5 else f"{cell:.3g}"
