"""Closing tables of a run and of a sweep, as rich draws them; each fits a terminal of 80 columns."""

from collections.abc import Mapping, Sequence
from functools import partial

from rich import box
from rich.markup import escape
from rich.table import Table

from pipelines.console import TitledTable
from pipelines.reports.figures.parts import gaps
from pipelines.reports.spaces import methods_of, spaces_of
from pipelines.reports.sweep_table import Point, SweepTable, spreads
from proser_core import titles
from proser_core.data.splits.class_split import in_words, where
from proser_core.jobs.spec import SELECTION_METRIC
from proser_core.recognition.result_tables import known_columns, known_legend
from proser_core.titles import counted

BEST = 5  # points of a space that are shown
SHORT = {"F1": "macro_f1", "AUROC": "auroc"}


def run_tables(table: SweepTable) -> list[Table]:
    """One table per metric with a row per method and a column per setting; without unknown test classes, one."""
    several = len(table.settings) > 1
    by = f", by {'number of unknown classes' if table.split.has_openness else 'outlier set'}" if several else ""
    heads = {metric: f"{titles.METRICS[metric]} on test images, %{by}" for metric in ("auroc", "macro_f1")}
    tables, methods = [], methods_of(table)
    known = known_columns(partial(spreads, methods))
    for metric, title in (heads if table.settings else {"": "test images of known classes, %"}).items():
        names = {setting: str(setting) if several else in_words(setting) for setting in table.settings}
        columns = {name: f"{where(setting)}/{metric}" for setting, name in names.items()}
        columns |= known
        drawn = _table(table, f"{table.recipe}: {title}", methods, columns)
        drawn.caption = known_legend(known) if metric != "auroc" else None
        tables.append(drawn)
    return tables


def sweep_tables(table: SweepTable) -> list[Table]:
    """One table per space with its best points on development data, and one of the methods."""
    columns = {"dev F1": SELECTION_METRIC}
    ends = dict.fromkeys((table.settings[0], table.settings[-1]))
    columns |= {f"{short} {n}": f"{where(n)}/{metric}" for n in ends for short, metric in SHORT.items()}
    tables = []
    for space in spaces_of(table):
        best = space.ranked[:BEST]
        title = f"{space.title}: {len(best)} of {counted(len(space.points), 'point')}, best on development, %"
        drawn = _table(table, title, best, columns)
        drawn.caption = " ".join(gaps(table, space.points)) or None
        tables.append(drawn)
    return [*tables, _table(table, "methods, %", methods_of(table), columns)]


def _table(table: SweepTable, title: str, points: Sequence[Point], columns: Mapping[str, str]) -> Table:
    """A row per point, with its metrics by the heads of their columns; the best of each is bold."""
    several = len(table.splits) > 1  # numbers with intervals: five columns of them fit without padding
    drawn = TitledTable(title=title, box=box.SIMPLE_HEAD, padding=(0, 0 if several else 1, 0, 0))
    drawn.add_column("", overflow="fold", min_width=18)
    for name in [*(["splits"] if several else []), *columns]:
        drawn.add_column(name, justify="right", no_wrap=True)
    cells = [spreads(points, metric, "±", "[bold]{}[/bold]") for metric in columns.values()]
    for point, *found in zip(points, *cells, strict=True):
        counts = [f"{point.num_finished}/{len(table.splits)}"] if several else []
        drawn.add_row(escape(point.label), *counts, *found)
    return drawn
