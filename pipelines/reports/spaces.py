"""Search spaces of a finished sweep: their points in order, with names for people, which one is selected, and what a
paper says of them.

Numbers and claims of a paper are shown only where the data set and the numbers of known and unknown classes are the
paper's. A claim is checked on the means over splits of test macro-F1, which have chosen nothing.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pipelines.reports.sweep_table import Point, SweepTable, by_split, controls_of, difference, is_numeric, mean, number
from proser_core import titles
from proser_core.config import to_json
from proser_core.data.splits.class_split import where
from proser_core.jobs.selection import Row, by_point, has_point, point_of, ranked
from proser_core.jobs.spec import SELECTION_METRIC
from tune_spaces import Claim, Fields, Published, SpaceInfo, title_of

NOT_FIELDS = {"split_index", "seed", "objective", "C"}  # C is num_dummies, as the paper writes it
OWN_SPACE = "own point"
"""The space of a run without one."""
LISTED = 15  # more points without a grid or names, such as those of a search, are put in order, best first
FEW_FIELDS = 4  # so many varied fields are all written in the name of a point


@dataclass(frozen=True)
class Space:
    """One space of the sweep: its points in order, the fields that vary over them, what its module says of it."""

    table: SweepTable
    name: str
    points: list[Point]
    varied: list[str]
    info: SpaceInfo
    ranked: list[Point]
    """The points that have finished, best first; those that lack a split come last."""

    @property
    def title(self) -> str:
        """The space's name, for people."""
        return title_of(self.name)

    @property
    def selected(self) -> Point | None:
        """The point that `proser_core.jobs.selection` selects; None where none has finished."""
        return next(iter(self.ranked), None)

    @property
    def is_grid(self) -> bool:
        """Whether the points fill half of the grid that the values of the varied fields span, or more."""
        values = ({_plain(point.params.get(name)) for point in self.points} for name in self.varied)
        return math.prod(map(len, values)) <= 2 * len(self.points)

    @property
    def own(self) -> Point | None:
        """The recipe's own point, if the space has it."""
        return self.find(to_json(self.table.own))

    def find(self, fields: Fields) -> Point | None:
        """The point with these fields, if the space has it."""
        return next((point for point in self.points if point.has(fields)), None)


def spaces_of(table: SweepTable) -> list[Space]:
    """The spaces of a sweep, in order."""
    return [_space(table, name, info) for name, info in table.spaces.items()]


def methods_of(table: SweepTable) -> list[Point]:
    """PROSER as selected in each space, the recipe's own point where that is another one, and the controls."""
    spaces = spaces_of(table)
    selected = [(space, space.selected) for space in spaces if space.selected]
    name = titles.PROSER
    found = [replace(point, label=f"{name}, {space.title}" if spaces[1:] else name) for space, point in selected]
    own = [row for row in table.rows if has_point(row, table.own)]
    if own and all(own[0] not in point.rows.values() for point in found):
        found.append(Point(titles.OWN_POINT, own[0]["params"], by_split(own)))
    return [*found, *controls_of(table)]


def _space(table: SweepTable, name: str, info: SpaceInfo) -> Space:
    rows = [row for row in table.rows if name in row["spaces"]]
    groups = by_point(rows)
    params = [group[0]["params"] for group in groups.values()]
    varied = _varied(params)
    usual = _usual(params, varied)
    labels = {key: _label(group[0], varied, usual, info) for key, group in groups.items()}
    shared = {label for label, count in Counter(labels.values()).items() if count > 1}
    points = {
        key: Point(
            f"{labels[key]} ({group[0]['name']})" if labels[key] in shared else labels[key],
            group[0]["params"],
            by_split(group),
        )
        for key, group in groups.items()
    }
    best = [points[point_of(group[0]["params"])] for group in ranked(rows, table.own)]
    listed = sorted(points.values(), key=lambda point: _order(point, varied, info))
    if len(varied) > 2 and not info.points and len(points) > LISTED:
        lost = sorted(
            (point for point in listed if not point.num_finished),
            key=lambda p: -np.nan_to_num(p.last(SELECTION_METRIC)),
        )
        listed = [*best, *lost]
    return Space(table, name, listed, varied, info, best)


def _varied(params: list[dict[str, Any]]) -> list[str]:
    """Fields with more than one value; those with a title of their own first."""
    names = {name for each in params for name in each} - NOT_FIELDS
    varied = {name for name in names if len({_plain(each.get(name)) for each in params}) > 1}
    return [name for name in titles.FIELDS if name in varied] + sorted(varied - titles.FIELDS.keys())


def _plain(value: Any) -> str:
    """One text for equal values: 1 and 1.0 are the same point."""
    return repr(float(value)) if is_numeric([value]) else str(value)


def _usual(params: list[dict[str, Any]], varied: list[str]) -> dict[str, str]:
    """Where many fields vary, those values that most points share: a point is called by where it departs."""
    if len(varied) <= FEW_FIELDS:
        return {}
    counts = {name: Counter(_plain(each.get(name)) for each in params).most_common(1)[0] for name in varied}
    return {name: value for name, (value, count) in counts.items() if 2 * count > len(params)}


def _order(point: Point, varied: list[str], info: SpaceInfo) -> tuple[Any, ...]:
    """Named points as their module lists them, those of a grid by their fields, others as they came."""
    if info.points:
        return ([*info.points, ""].index(_named(point.params, info)),)
    if len(varied) > 2:
        return ()
    values = [point.params.get(name) for name in varied]
    return tuple((0, value, "") if is_numeric([value]) else (1, 0, str(value)) for value in values)


def _label(row: Row, varied: list[str], usual: dict[str, str], info: SpaceInfo) -> str:
    """The point's name in its space, else the fields that vary."""
    if name := _named(row["params"], info):
        return name
    values = {name: row["params"].get(name) for name in varied}
    values = {name: value for name, value in values.items() if usual.get(name) != _plain(value)}
    fields_in_words = [f"{titles.SHORT.get(name, name)} {number(value)}" for name, value in values.items()]
    return ", ".join(fields_in_words) or row["name"]


def _named(params: dict[str, Any], info: SpaceInfo) -> str:
    """What the space calls a point; empty where it does not."""
    for name, fields in info.points.items():
        if all(params.get(field) == value for field, value in fields.items()):
            return name
    return ""


@dataclass(frozen=True)
class Verdict:
    """How many of a claim's pairs were measured (on at least one common split), and in how many it holds."""

    claim: Claim
    setting: int
    held: int
    measured: int


def published_at(space: Space, point: Point, metric: str) -> float | None:
    """The number printed for this point, a fraction, where there is one for this metric."""
    for printed in space.info.published:
        at = f"{where(printed.num_unknown)}/{printed.metric}"
        if _is_of(printed, space.table) and metric == at and point.has(printed.point):
            return printed.value
    return None


def lead_of(space: Space, metric: str) -> tuple[Point, str] | None:
    """The one point of the space that a claim puts above others on this metric, and the claim in words."""
    for claim in space.info.claims:
        leads = [first for first, _ in claim.pairs]
        metrics = [f"{where(setting)}/macro_f1" for setting in _settings(space.table, claim)]
        if metric in metrics and leads and leads.count(leads[0]) == len(leads):
            found = [point for point in _meant(space, leads[0]) if point in space.points]
            if len(found) == 1:
                return found[0], claim.says
    return None


def verdicts(space: Space) -> list[Verdict]:
    """Every claim of the space at every setting that it speaks of and that was measured."""
    return [_verdict(space, claim, s) for claim in space.info.claims for s in _settings(space.table, claim)]


def _settings(table: SweepTable, claim: Claim) -> list[int]:
    return [setting for setting in claim.num_unknown if _is_of(claim, table) and setting in table.settings]


def _is_of(stated: Published | Claim, table: SweepTable) -> bool:
    """Whether something of a paper is of the table's data set and number of known classes."""
    return (stated.data_set, stated.num_known) == (table.data_set, table.split.num_known)


def _verdict(space: Space, claim: Claim, setting: int) -> Verdict:
    held = measured = 0
    for above, below in (both for pair in claim.pairs for both in _pairs(space, *pair)):
        found = difference(above, below, f"{where(setting)}/macro_f1")
        measured += bool(found)
        held += mean(found) > 0
    return Verdict(claim, setting, held, measured)


def _pairs(space: Space, first: Fields | str, second: Fields | str) -> Iterator[tuple[Point, Point]]:
    """The points that are meant, each with the one that is equal in what neither names."""
    both = [_fields(space, each) for each in (first, second)]
    free = [name for name in space.varied if None not in both and not any(name in each for each in both if each)]
    for above, below in itertools.product(_meant(space, first), _meant(space, second)):
        if all(above.params.get(name) == below.params.get(name) for name in free):
            yield above, below


def _meant(space: Space, named: Fields | str) -> list[Point]:
    """Points by their fields or their name, or a control by its name."""
    fields = _fields(space, named)
    if fields is not None:
        return [point for point in space.points if point.has(fields)]
    return [control for control in controls_of(space.table) if control.label == named]


def _fields(space: Space, named: Fields | str) -> Fields | None:
    return named if isinstance(named, dict) else space.info.points.get(named)
