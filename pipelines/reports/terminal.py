"""Closing tables of a run and of a sweep, as rich draws them; each fits a terminal of 80 columns."""

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial

from rich import box
from rich.markup import escape, render
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
WIDTH = 80  # of a table, characters
NAME, HEAD = 18, 10  # characters of a name and of the head of a column; longer ones are folded
SHORT = {"F1": "macro_f1", "AUROC": "auroc"}


def run_tables(table: SweepTable) -> list[Table]:
    """One table per metric, or several where it would be too wide, with a row per method and a column per setting;
    without unknown test classes, one."""
    several = len(table.settings) > 1
    by = f", by {'number of unknown classes' if table.split.has_openness else 'outlier set'}" if several else ""
    heads = {metric: f"{titles.METRICS[metric]} on test images, %{by}" for metric in ("auroc", "macro_f1")}
    tables, methods = [], methods_of(table)
    known = known_columns(partial(spreads, methods))
    for metric, title in (heads if table.settings else {"": "test images of known classes, %"}).items():
        names = {setting: str(setting) if several else in_words(setting) for setting in table.settings}
        columns = [*({name: f"{where(setting)}/{metric}"} for setting, name in names.items()), known]
        drawn = _tables(table, f"{table.recipe}: {title}", methods, columns)
        drawn[-1].caption = known_legend(known) if metric != "auroc" else None
        tables += drawn
    return tables


def sweep_tables(table: SweepTable) -> list[Table]:
    """One table per space with its best points on development data, and one of the methods; several where it would be
    too wide."""
    ends = dict.fromkeys((table.settings[0], table.settings[-1]))
    at_ends = ({f"{short} {n}": f"{where(n)}/{metric}" for short, metric in SHORT.items()} for n in ends)
    columns = [{"dev F1": SELECTION_METRIC}, *at_ends]
    tables = []
    for space in spaces_of(table):
        best = space.ranked[:BEST]
        title = f"{space.title}: {len(best)} of {counted(len(space.points), 'point')}, best on development, %"
        drawn = _tables(table, title, best, columns)
        drawn[-1].caption = escape(" ".join(gaps(table, space.points))) or None
        tables += drawn
    return [*tables, *_tables(table, "methods, %", methods_of(table), columns)]


def _tables(
    table: SweepTable, title: str, points: Sequence[Point], columns: Sequence[Mapping[str, str]]
) -> list[Table]:
    """A row per point, with its metrics by the heads of their columns; the best of each is bold. Columns that belong
    together are in one table, with as many others as fit."""
    several = len(table.splits) > 1
    padding = 0 if several else 1  # numbers with intervals: five columns of them fit without
    cells, first = dict[str, list[str]](), list[str]()
    if several:
        first = ["splits"]
        cells["splits"] = [f"{point.num_finished}/{len(table.splits)}" for point in points]
    parts = list[list[str]]()
    for together in columns:
        heads = {textwrap.fill(head, HEAD): metric for head, metric in together.items()}
        cells |= {head: spreads(points, metric, "±", "[bold]{}[/bold]") for head, metric in heads.items()}
        wider = [*(parts[-1] if parts else first), *heads]
        widths = [NAME, *(max(map(_width, (head, *cells[head]))) for head in wider)]
        if parts and sum(widths) + (1 + padding) * len(widths) >= WIDTH:
            parts.append([*first, *heads])
        else:
            parts[-1:] = [wider]
    return [
        _table(f"{title}, continued" if number else title, points, {head: cells[head] for head in heads}, padding)
        for number, heads in enumerate(parts)
    ]


def _width(cell: str) -> int:
    return max(map(len, render(cell).plain.split("\n")))


def _table(title: str, points: Sequence[Point], cells: Mapping[str, Sequence[str]], padding: int) -> Table:
    drawn = TitledTable(title=escape(title), box=box.SIMPLE_HEAD, padding=(0, padding, 0, 0))
    drawn.add_column("", overflow="fold", min_width=NAME)
    for head in cells:
        drawn.add_column(head, justify="right", no_wrap=True)
    for point, *found in zip(points, *cells.values(), strict=True):
        drawn.add_row(escape(point.label), *found)
    return drawn
