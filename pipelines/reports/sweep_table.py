"""A finished sweep as data: one row a trial, read as points over class splits, by space.

Everything that people see of a sweep (figures, tables, `trials.parquet`) is made from a `SweepTable`.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.reports.figures import AXES
from proser_core.baselines.cross_entropy import CE_CONTROL
from proser_core.baselines.max_logit import MAX_LOGIT
from proser_core.config import FinetuneConfig, from_json, to_json
from proser_core.data.splits.class_split import ClassSplit, Setting
from proser_core.jobs.selection import Row, by_point, finetune_of, ranked
from proser_core.jobs.spec import SELECTION_METRIC
from proser_core.store.files import read_json, write_json
from tune_spaces import Fields, Told, told

TABLE = "sweep_table.json"
NOT_FIELDS = {"split_index", "seed", "objective", "C"}  # C is num_dummies, as the paper writes it
SHORT = {"num_dummies": "C"}
LISTED = 15  # more points without a grid or names, such as those of a search, are put in order, best first
FEW_FIELDS = 4  # so many varied fields are all written in the name of a point
COMPARED = (MAX_LOGIT.name, CE_CONTROL.name)  # controls that a point has to beat


@dataclass(frozen=True)
class SweepTable:
    """A sweep over one or more spaces on one or more class splits."""

    recipe: str
    spaces: tuple[str, ...]
    splits: dict[int, ClassSplit]  # by split_index
    rows: list[Row]  # one a trial: key, name, objective, split_index, spaces, params, status, reason, metrics
    controls: list[Row]  # split_index, name, metrics
    own: FinetuneConfig
    """The recipe's own point, to which a tie goes."""

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The test settings, the same on every split."""
        return next(iter(self.splits.values())).settings

    @property
    def num_known(self) -> int:
        """Number of known classes K, the same on every split."""
        return next(iter(self.splits.values())).num_known

    @property
    def has_openness(self) -> bool:
        """Whether the settings are numbers of unknown classes."""
        return next(iter(self.splits.values())).has_openness

    def openness(self, setting: Setting) -> float | None:
        """Openness of a setting, a fraction; None of an outlier set."""
        return next(iter(self.splits.values())).openness(setting)


def write_table(table: SweepTable, folder: Path) -> None:
    """Write the table as JSON, to be read again by `read_table`."""
    splits = {str(index): to_json(split) for index, split in table.splits.items()}
    write_json(folder / TABLE, {**vars(table), "splits": splits, "own": to_json(table.own)})


def read_table(folder: Path) -> SweepTable:
    """The table in a report's folder."""
    values = read_json(folder / TABLE)
    splits = {int(index): from_json(ClassSplit, split) for index, split in values["splits"].items()}
    own = from_json(FinetuneConfig, values.get("own", {}))  # a file of version 0.1 has none
    return SweepTable(**{**values, "spaces": tuple(values["spaces"]), "splits": splits, "own": own})


@dataclass(frozen=True)
class Point:
    """A point of a space, or a control, with its row on each split that has one."""

    label: str
    params: dict[str, Any]
    rows: dict[int, Row]  # by split_index

    def values(self, metric: str) -> dict[int, float]:
        """The metric, a fraction, by split; of finished trials only."""
        finished = {split: row["metrics"] for split, row in self.rows.items() if row["status"] == "finished"}
        return {split: metrics[metric] for split, metrics in finished.items() if metric in metrics}

    def mean(self, metric: str) -> float:
        """Mean over the splits that finished; NaN where none did."""
        return mean(self.values(metric).values())

    def std(self, metric: str) -> float:
        """Standard deviation of the sample (n - 1) over splits; NaN below two."""
        return std(self.values(metric).values())

    @property
    def num_finished(self) -> int:
        """Number of splits on which the trial finished."""
        return len(self.values(SELECTION_METRIC))

    @property
    def fate(self) -> str:
        """ "failed" or "stopped" where no split finished, else an empty string."""
        if self.num_finished:
            return ""
        return "failed" if any(row["status"] == "failed" for row in self.rows.values()) else "stopped"

    def last(self, metric: str) -> float:
        """The mean; of a point that finished nowhere, of what its trials had reached when they were stopped."""
        if self.num_finished:
            return self.mean(metric)
        return mean(row["metrics"][metric] for row in self.rows.values() if metric in row["metrics"])

    def has(self, fields: Fields) -> bool:
        """Whether the point has these fields of `finetune`."""
        return all(self.params.get(name) == value for name, value in fields.items())


@dataclass(frozen=True)
class Space:
    """One space of the sweep: its points in order, the fields that vary over them, what is told of it."""

    name: str
    points: list[Point]
    varied: list[str]
    told: Told
    ranked: list[Point]
    """Those that have finished, best first; those that lack a split after those that do not."""

    @property
    def title(self) -> str:
        """The space's name; of a file of the user's own, that without folder and ending."""
        return Path(self.name).stem if self.name.endswith(".py") else self.name

    @property
    def selected(self) -> Point | None:
        """The point that `proser_core.jobs.selection` selects; None where none has finished."""
        return next(iter(self.ranked), None)

    def find(self, fields: Fields) -> Point | None:
        """The point with these fields, if the space has it."""
        return next((point for point in self.points if point.has(fields)), None)


def spaces_of(table: SweepTable) -> list[Space]:
    """The spaces of a sweep, in order."""
    return [_space(table, name) for name in table.spaces]


def controls_of(table: SweepTable) -> list[Point]:
    """The controls, each over the splits."""
    names = dict.fromkeys(row["name"] for row in table.controls)
    finished: Row = {"status": "finished"}
    return [
        Point(name, {}, {row["split_index"]: finished | row for row in table.controls if row["name"] == name})
        for name in names
    ]


def own_points(table: SweepTable) -> list[Point]:
    """The recipe's own point, where no space has it."""
    rows = [row for row in table.rows if row["objective"] == "proser" and not row["spaces"]]
    return [
        Point(f"recipe's own point: {group[0]['name']}", group[0]["params"], _by_split(group))
        for group in by_point(rows).values()
    ]


def unfinished(table: SweepTable) -> list[Row]:
    """Rows of trials that failed or were stopped, failed ones first."""
    return sorted((row for row in table.rows if row["status"] != "finished"), key=lambda row: row["status"])


def difference(point: Point, control: Point, metric: str) -> list[float]:
    """Point minus control on each split that has both, as fractions."""
    values, others = point.values(metric), control.values(metric)
    return [values[split] - others[split] for split in sorted(values.keys() & others.keys())]


def mean(values: Iterable[float]) -> float:
    """Mean; NaN of nothing."""
    numbers = list(values)
    return float(np.mean(numbers)) if numbers else float("nan")


def std(values: Iterable[float]) -> float:
    """Standard deviation of the sample (n - 1); NaN of fewer than two."""
    numbers = list(values)
    return float(np.std(numbers, ddof=1)) if len(numbers) > 1 else float("nan")


def is_numeric(values: Iterable[Any]) -> bool:
    """Whether all are numbers, as which booleans do not count."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def number(value: Any) -> str:
    """A field's value, with up to three digits."""
    return f"{value:.3g}" if is_numeric([value]) else str(value)


def _space(table: SweepTable, name: str) -> Space:
    rows = [row for row in table.rows if name in row["spaces"] and row["objective"] == "proser"]
    groups = by_point(rows)
    params = [group[0]["params"] for group in groups.values()]
    about, varied = told(name), _varied(params)
    usual = _usual(params, varied)
    points = {
        finetune: Point(_label(group[0], varied, usual, about), group[0]["params"], _by_split(group))
        for finetune, group in groups.items()
    }
    best = [points[finetune_of(group[0])] for group in ranked(rows, table.own)]
    listed = sorted(points.values(), key=lambda point: _order(point, varied, about))
    if len(varied) > 2 and not about.points and len(points) > LISTED:
        lost = sorted((point for point in listed if point.fate), key=lambda p: -np.nan_to_num(p.last(SELECTION_METRIC)))
        listed = [*best, *lost]
    return Space(name, listed, varied, about, best)


def _by_split(rows: Iterable[Row]) -> dict[int, Row]:
    return {row["split_index"]: row for row in rows}


def _varied(params: list[dict[str, Any]]) -> list[str]:
    """Fields with more than one value; those with an axis title of their own first."""
    names = {name for each in params for name in each} - NOT_FIELDS
    varied = {name for name in names if len({_plain(each.get(name)) for each in params}) > 1}
    return [name for name in AXES if name in varied] + sorted(varied - AXES.keys())


def _plain(value: Any) -> str:
    """One text for equal values: 1 and 1.0 are the same point."""
    return repr(float(value)) if is_numeric([value]) else str(value)


def _usual(params: list[dict[str, Any]], varied: list[str]) -> dict[str, str]:
    """Where many fields vary, those values that most points share: a point is called by where it departs."""
    if len(varied) <= FEW_FIELDS:
        return {}
    counts = {name: Counter(_plain(each.get(name)) for each in params).most_common(1)[0] for name in varied}
    return {name: value for name, (value, count) in counts.items() if 2 * count > len(params)}


def _order(point: Point, varied: list[str], about: Told) -> tuple[Any, ...]:
    """Named points as their module lists them, those of a grid by their fields, others as they came."""
    if about.points:
        return (list(about.points).index(point.label) if point.label in about.points else len(about.points),)
    if len(varied) > 2:
        return ()
    values = [point.params.get(name) for name in varied]
    return tuple((0, value, "") if is_numeric([value]) else (1, 0, str(value)) for value in values)


def _label(row: Row, varied: list[str], usual: dict[str, str], about: Told) -> str:
    """The point's name in its space, else the fields that vary."""
    for name, fields in about.points.items():
        if all(row["params"].get(field) == value for field, value in fields.items()):
            return name
    values = {name: row["params"].get(name) for name in varied}
    values = {name: value for name, value in values.items() if usual.get(name) != _plain(value)}
    told_fields = [f"{SHORT.get(name, name)} {number(value)}" for name, value in values.items()]
    return ", ".join(told_fields) or row["name"]
