"""A finished run or sweep as data: one row per trial, read as points over class splits.

Everything that people see of it (figures, tables, `trials.parquet`) is made from a `SweepTable`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pipelines.output_files import TABLES
from proser_core.config import DataConfig, FinetuneConfig, from_json, to_json
from proser_core.data.splits.class_split import ClassSplit, Setting
from proser_core.jobs.selection import Row
from proser_core.jobs.spec import SELECTION_METRIC
from proser_core.store.files import read_json, write_json
from proser_core.titles import DATA_SETS, best_of, percent
from tune_spaces import Fields, SpaceInfo

TABLE = f"{TABLES}/sweep_table.json"


@dataclass(frozen=True)
class SweepTable:
    """A sweep over one or more spaces on one or more class splits; a run is one over one space on one split."""

    recipe: str
    spaces: dict[str, SpaceInfo]
    """Each with what its module said as the work began: a user's own file may be edited, or run code."""
    splits: dict[int, ClassSplit]  # by split_index
    rows: list[Row]  # one per trial: key, name, objective, split_index, spaces, params, status, reason, metrics
    controls: list[Row]  # split_index, name, metrics
    own: FinetuneConfig
    """The recipe's own point, to which a tie goes."""
    images: str = ""
    """Data set, class splits and seed, for titles."""
    data_set: str = ""
    """The one that known and unknown classes are of; empty where they are of two."""

    @property
    def split(self) -> ClassSplit:
        """Any class split: all have the same settings and as many known classes."""
        return next(iter(self.splits.values()))

    @property
    def settings(self) -> tuple[Setting, ...]:
        """The test settings."""
        return self.split.settings

    @property
    def has_development(self) -> bool:
        """Whether anything was measured on development unknowns."""
        return any(SELECTION_METRIC in row["metrics"] for row in (*self.rows, *self.controls))


def images_title(data: DataConfig, splits: Iterable[int], seeds: Iterable[int]) -> str:
    """Data set, class splits and their seeds, equal ones once, in words."""
    against = f" against {DATA_SETS.get(data.unknown, data.unknown)}" if data.unknown else ""
    family = f" of {data.split_family}" if data.split_family else ""
    indices = list(splits)
    which = f"class split{'s' * (len(indices) > 1)} {', '.join(map(str, indices))}"
    seeds = list(dict.fromkeys(seeds))
    drawn = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
    return f"{DATA_SETS.get(data.name, data.name)}{against}, {which}{family}, {drawn}"


def write_table(table: SweepTable, folder: Path) -> None:
    """Write the table as JSON, to be read again by `read_table`."""
    splits = {str(index): to_json(split) for index, split in table.splits.items()}
    spaces = {name: to_json(info) for name, info in table.spaces.items()}
    (folder / TABLE).parent.mkdir(parents=True, exist_ok=True)
    write_json(folder / TABLE, {**vars(table), "spaces": spaces, "splits": splits, "own": to_json(table.own)})


def read_table(folder: Path) -> SweepTable:
    """The table in a report's folder."""
    values = read_json(folder / TABLE)
    splits = {int(index): from_json(ClassSplit, split) for index, split in values["splits"].items()}
    spaces = {name: from_json(SpaceInfo, said) for name, said in values["spaces"].items()}
    own = from_json(FinetuneConfig, values["own"])
    return SweepTable(**{**values, "spaces": spaces, "splits": splits, "own": own})


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
        return sum(row["status"] == "finished" for row in self.rows.values())

    @property
    def status(self) -> str:
        """ "finished" where any split has; else "failed", or "stopped" where none has failed."""
        found = {row["status"] for row in self.rows.values()}
        return next(status for status in ("finished", "failed", "stopped") if status in found)

    def last(self, metric: str) -> float:
        """The mean; of a point that finished nowhere, of what its trials had reached when they were stopped."""
        if self.num_finished:
            return self.mean(metric)
        return mean(row["metrics"][metric] for row in self.rows.values() if metric in row["metrics"])

    def has(self, fields: Fields) -> bool:
        """Whether the point has these fields of `finetune`."""
        return all(self.params.get(name) == value for name, value in fields.items())


def controls_of(table: SweepTable) -> list[Point]:
    """The controls, each over the splits."""
    names = dict.fromkeys(row["name"] for row in table.controls)
    finished: Row = {"status": "finished"}
    return [
        Point(name, {}, {row["split_index"]: finished | row for row in table.controls if row["name"] == name})
        for name in names
    ]


def unfinished(table: SweepTable) -> list[Row]:
    """Rows of trials that failed or were stopped, failed ones first."""
    return sorted((row for row in table.rows if row["status"] != "finished"), key=lambda row: row["status"])


def difference(point: Point, control: Point, metric: str) -> list[float]:
    """Point minus control on each split that has both, as fractions."""
    return list(paired(point.values(metric), control.values(metric)).values())


def paired(values: Mapping[int, float], others: Mapping[int, float]) -> dict[int, float]:
    """Values minus others on each split that has both."""
    return {split: values[split] - others[split] for split in sorted(values.keys() & others.keys())}


def mean(values: Iterable[float]) -> float:
    """Mean; NaN of nothing."""
    numbers = list(values)
    return fmean(numbers) if numbers else math.nan


def std(values: Iterable[float]) -> float:
    """Standard deviation of the sample (n - 1); NaN of fewer than two."""
    numbers = list(values)
    return stdev(numbers) if len(numbers) > 1 else math.nan


def spread(point: Point, metric: str, sign: str = " ± ") -> str:
    """Mean in percent, with the standard deviation over splits where there are two; without a mean, the status."""
    middle, deviation = point.mean(metric), point.std(metric)
    if math.isnan(middle):
        return "-" if point.num_finished else point.status
    return percent(middle) if math.isnan(deviation) else f"{percent(middle)}{sign}{percent(deviation)}"


def spreads(points: Sequence[Point], metric: str, sign: str = " ± ", best: str = "**{}**") -> list[str]:
    """`spread` of each point, with the best ones as in `best`, among those with the most class splits, because splits
    differ in difficulty."""
    values = [point.values(metric).values() for point in points]
    most = max(map(len, values), default=0)
    means = [mean(each) if len(each) == most else math.nan for each in values]
    found = zip(points, best_of(metric, means), strict=True)
    return [(best if is_best else "{}").format(spread(point, metric, sign)) for point, is_best in found]


def is_numeric(values: Iterable[Any]) -> bool:
    """Whether all are numbers, as which booleans do not count."""
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def number(value: Any) -> str:
    """A field's value; a fraction with up to three digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def by_split(rows: Iterable[Row]) -> dict[int, Row]:
    """Rows of one point by `split_index`."""
    return {row["split_index"]: row for row in rows}
