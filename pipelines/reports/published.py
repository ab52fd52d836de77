"""Numbers and claims of a paper on a search space, to be compared with what was measured.

Shown only where the numbers of known and unknown classes are the paper's. A claim is checked on the means
over splits of test macro-F1, which have chosen nothing.
"""

from dataclasses import dataclass

from pipelines.reports.spaces import Space
from pipelines.reports.sweep_table import Point, SweepTable, controls_of, mean
from proser_core.data.splits.class_split import where
from tune_spaces import Claim, Fields


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
        same_task = printed.num_known == space.table.split.num_known
        if same_task and metric == f"{where(printed.num_unknown)}/{printed.metric}" and point.has(printed.point):
            return printed.value
    return None


def lead_of(space: Space, metric: str) -> tuple[Point, str] | None:
    """The one point that a claim puts above others on this metric, and the claim in words."""
    for claim in space.info.claims:
        leads = [first for first, _ in claim.pairs]
        metrics = [f"{where(setting)}/macro_f1" for setting in _settings(space.table, claim)]
        if metric in metrics and leads.count(leads[0]) == len(leads):
            point = _point(space, leads[0])
            if point is not None:
                return point, claim.says
    return None


def verdicts(space: Space) -> list[Verdict]:
    """Every claim of the space at every setting that it speaks of and that was measured."""
    return [_verdict(space, claim, s) for claim in space.info.claims for s in _settings(space.table, claim)]


def _settings(table: SweepTable, claim: Claim) -> list[int]:
    same_known = claim.num_known == table.split.num_known
    return [setting for setting in claim.num_unknown if same_known and setting in table.settings]


def _verdict(space: Space, claim: Claim, setting: int) -> Verdict:
    held = measured = 0
    for first, second in claim.pairs:
        above, below = _point(space, first), _point(space, second)
        if above is None or below is None:
            continue
        values, others = (point.values(f"{where(setting)}/macro_f1") for point in (above, below))
        common = values.keys() & others.keys()
        measured += bool(common)
        held += mean(values[split] for split in common) > mean(others[split] for split in common)
    return Verdict(claim, setting, held, measured)


def _point(space: Space, named: Fields | str) -> Point | None:
    """A point by its fields or its name, or a control by its name."""
    if isinstance(named, dict):
        return space.find(named)
    fields = space.info.points.get(named)
    if fields is not None:
        return space.find(fields)
    return next((control for control in controls_of(space.table) if control.label == named), None)
