"""Which point of a sweep is selected: one rule for a run, a sweep's report and a promotion."""

from collections.abc import Iterable, Mapping
from statistics import fmean
from typing import Any

from proser_core.config import FinetuneConfig, from_json, to_json
from proser_core.jobs.spec import SELECTION_METRIC

DEFAULTS = to_json(FinetuneConfig())
Point = tuple[Any, ...]
Row = dict[str, Any]
"""A trial of a sweep: `key`, `objective`, `split_index`, `params`, `status`, `metrics`."""


def select(rows: Iterable[Row], own: FinetuneConfig) -> Row | None:
    """The first row of the best point with placeholders; None where none has finished."""
    return next((point[0] for point in ranked(rows, own)), None)


def ranked(rows: Iterable[Row], own: FinetuneConfig) -> list[list[Row]]:
    """Points with placeholders, best first, each as its finished rows, one per class split.

    The best has the largest mean of SELECTION_METRIC, among the points that finished on as many class splits as any
    did, because splits differ in difficulty. A tie goes to the recipe's own point, then to the first; without
    development unknowns all are tied. Test metrics play no part.
    """

    def standing(point: list[Row]) -> tuple[int, float, bool]:
        mean = fmean(row["metrics"].get(SELECTION_METRIC, 0.0) for row in point)
        return len(point), mean, has_point(point[0], own)

    trained = [row for row in rows if row["objective"] == "proser" and row["status"] == "finished"]
    return sorted(by_point(trained).values(), key=standing, reverse=True)


def num_compared(rows: Iterable[Row]) -> int:
    """Points with placeholders that the best was chosen among, those included that a search compared and stopped."""
    proser = (row for row in rows if row["objective"] == "proser")
    return len(by_point(row for row in proser if row["status"] == "finished" or SELECTION_METRIC in row["metrics"]))


def by_point(rows: Iterable[Row]) -> dict[Point, list[Row]]:
    """Rows of the same fine-tune together, in the order of their first row."""
    points: dict[Point, list[Row]] = {}
    for row in rows:
        points.setdefault(point_of(row["params"]), []).append(row)
    return points


def has_point(row: Row, finetune: FinetuneConfig) -> bool:
    """Whether a row is of this fine-tune."""
    return point_of(row["params"]) == point_of(to_json(finetune))


def point_of(params: Mapping[str, Any]) -> Point:
    """Values of all fields of a fine-tune, to find equal ones by; 1 and 1.0 are equal."""
    return tuple(params.get(name, default) for name, default in DEFAULTS.items())


def finetune_of(row: Row) -> FinetuneConfig:
    """What a trial was fine-tuned with."""
    return from_json(FinetuneConfig, {name: value for name, value in row["params"].items() if name in DEFAULTS})
