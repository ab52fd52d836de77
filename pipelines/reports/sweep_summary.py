"""Tables of a finished sweep: for the terminal, and as results.md."""

import itertools
import math
from collections.abc import Iterable

from rich import box
from rich.table import Table

from pipelines.reports.summary import TITLES, percent
from pipelines.reports.sweep_figures.parts import gaps
from pipelines.reports.sweep_published import Verdict, published_at, verdicts
from pipelines.reports.sweep_table import (
    COMPARED,
    Point,
    Space,
    SweepTable,
    controls_of,
    difference,
    mean,
    number,
    own_points,
    spaces_of,
    std,
    unfinished,
)
from proser_core.data.splits.class_split import in_words, where
from proser_core.jobs.spec import SELECTION_METRIC

BEST = 5  # points of a space that the terminal shows
LISTED = 30  # trials without a result that results.md lists
PAPERS = "macro_f1"  # the metric of the paper's sweeps


def sweep_tables(table: SweepTable) -> list[Table]:
    """One table a space with its best points on development data, and one of the controls; 80 to 100 columns wide."""
    spaces = [_of_space(table, space) for space in spaces_of(table)]
    return [*spaces, _terminal(table, "controls, %", [*own_points(table), *controls_of(table)])]


def _of_space(table: SweepTable, space: Space) -> Table:
    best = space.ranked[:BEST]
    drawn = _terminal(table, f"{space.title}: {len(best)} of {len(space.points)} points, best on development, %", best)
    drawn.caption = " ".join(gaps(table, space.points)) or None
    if best:
        drawn.rows[0].style = "bold"
    return drawn


def _terminal(table: SweepTable, title: str, points: list[Point]) -> Table:
    drawn = Table(title=title, title_justify="left", caption_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    drawn.add_column("", overflow="fold", min_width=18)
    several = len(table.splits) > 1
    ends = list(dict.fromkeys((table.settings[0], table.settings[-1])))
    columns = {"dev F1": SELECTION_METRIC}
    columns |= {f"{short} {n}": f"{where(n)}/{name}" for n in ends for short, name in _SHORT.items()}
    for name in [*(["splits"] if several else []), *columns]:
        drawn.add_column(name, justify="right", no_wrap=True)
    for point in points:
        counts = [f"{point.num_finished}/{len(table.splits)}"] if several else []
        cells = [spread(point, metric, "±") for metric in columns.values()]
        drawn.add_row(point.label, *counts, *cells)
    return drawn


_SHORT = {"F1": "macro_f1", "AUC": "auroc"}


def spread(point: Point, metric: str, sign: str = " ± ") -> str:
    """Mean in percent, with the standard deviation over splits where there are two; else what became of the point."""
    middle, apart = point.mean(metric), point.std(metric)
    if math.isnan(middle):
        return point.fate or "-"
    return percent(middle) if math.isnan(apart) else f"{percent(middle)}{sign}{percent(apart)}"


def overview(table: SweepTable) -> str:
    """What was selected in each space and how it stands to the controls, in a few lines of Markdown."""
    splits = ", ".join(map(str, table.splits))
    lost = unfinished(table)
    counts = [f"{len(table.rows)} trials", f"{len(table.rows) - len(lost)} finished"]
    counts += [f"{n} {fate}" for fate in ("failed", "stopped") if (n := sum(row["status"] == fate for row in lost))]
    deviation = " Means ± standard deviation of the sample over splits." if len(table.splits) > 1 else ""
    lines = [
        f"# {table.recipe}: sweep over {', '.join(space.title for space in spaces_of(table))}",
        "",
        f"Class split{'s' * (len(table.splits) > 1)} {splits}; {', '.join(counts)}.{deviation}",
        "Validation images and development unknowns choose, by macro-F1; test images only report. A selected point is "
        "the best of its space on the very images that chose it.",
        "",
    ]
    for space in spaces_of(table):
        lines += [f"- **{space.title}**: {_selected(table, space)}", *(f"  {line}" for line in _against(table, space))]
    return "\n".join(lines) + "\n"


def _selected(table: SweepTable, space: Space) -> str:
    chosen = space.selected
    if chosen is None:
        return "no point finished."
    smallest = where(table.settings[0])
    return (
        f"selected {chosen.label}; development macro-F1 {spread(chosen, SELECTION_METRIC)}, "
        f"test at {in_words(table.settings[0])}: macro-F1 {spread(chosen, f'{smallest}/macro_f1')}, "
        f"AUC {spread(chosen, f'{smallest}/auroc')}."
    )


def _against(table: SweepTable, space: Space) -> list[str]:
    """Whether any point is above the controls on the metric that chooses, by means over common splits."""
    lines = []
    for control in controls_of(table):
        apart = [(point, each) for point in space.ranked if (each := difference(point, control, SELECTION_METRIC))]
        if control.label not in COMPARED or not apart or space.selected is None:
            continue
        above = sum(mean(each) > 0 for _, each in apart)
        best, nearest = max(apart, key=lambda both: mean(both[1]))
        if above:
            own = difference(space.selected, control, SELECTION_METRIC)
            lines.append(
                f"Above {control.label} on development macro-F1: {above} of {len(apart)} points; the selected one "
                f"differs by {_points(own)}."
            )
        else:
            lines.append(
                f"No point lies above {control.label} on development macro-F1: the nearest, {best.label}, differs by "
                f"{_points(nearest)}."
            )
    return lines


def _points(apart: list[float]) -> str:
    """A mean difference in points of percent, with its standard deviation over splits."""
    if not apart:
        return "nothing that can be told (no split in common)"
    deviation = "" if math.isnan(std(apart)) else f" ± {percent(std(apart))}"
    return f"{_signed(mean(apart))}{deviation} points"


def _signed(apart: float) -> str:
    """A difference in points of percent; never -0.0."""
    return f"{round(100 * apart, 1) + 0.0:+.1f}"


def markdown(table: SweepTable) -> str:
    """results.md: the overview, the controls, and a section a space."""
    parts = [overview(table), "## Controls\n", _points_table(table, None, [*own_points(table), *controls_of(table)])]
    for space in spaces_of(table):
        parts += [f"## {space.title}\n", *_section(table, space)]
    lost = unfinished(table)
    if lost:
        parts += ["## Trials without a result\n", _lost(table)]
    found = {in_words(setting): table.openness(setting) for setting in table.settings}
    told = ", ".join(f"{name} {percent(openness)} %" for name, openness in found.items() if openness is not None)
    openness = f"Openness: {told}. " if told else ""
    parts.append(f"{openness}AUC / macro-F1 in percent; `trials.parquet` has every trial and metric.\n")
    return "\n".join(parts)


def _section(table: SweepTable, space: Space) -> list[str]:
    parts = [f"{space.told.headline}\n"] if space.told.headline else []
    parts.append(_points_table(table, space, space.points))
    if len(space.varied) == 2 and len(space.points) > 2:
        parts.append(_cross(table, space))
    claims = [_claim(found) for _, found in itertools.groupby(verdicts(table, space), lambda verdict: verdict.claim)]
    return [*parts, "\n".join(claims) + "\n"] if claims else parts


def _claim(found: Iterable[Verdict]) -> str:
    """A claim of the paper, and how many of its pairs are so here at each setting."""
    several = list(found)
    claim = several[0].claim
    counts = ", ".join(f"{each.held} of {each.measured} ({each.setting} unknown)" for each in several)
    return f"- The paper: {claim.says} ({claim.source}). Pairs of points that are in this order here: {counts}."


def _points_table(table: SweepTable, space: Space | None, points: list[Point]) -> str:
    """A row a point: splits, AUC / macro-F1 on development and at each setting, and the paper's number beside."""
    places = {"development": "dev"} | {in_words(setting): where(setting) for setting in table.settings}
    title, printed = _published(table, space) if space else ("", {})
    header = ["point" if space else "method", "splits", *places]
    header += [f"paper, {title}", "difference"] if printed else []
    rows = []
    for point in points:
        name = f"**{point.label}** (selected)" if space and point is space.selected else point.label
        cells = [
            f"{spread(point, f'{place}/auroc')} / {spread(point, f'{place}/macro_f1')}" for place in places.values()
        ]
        if point.fate:
            reached = point.last(SELECTION_METRIC)
            at = "" if math.isnan(reached) else f" at macro-F1 {percent(reached)}"
            cells = [point.fate + at, *["" for _ in cells[1:]]]
        beside = printed.get(point.label, ("", "")) if printed else ()
        rows.append([name, f"{point.num_finished} of {len(table.splits)}", *cells, *beside])
    return _table(header, rows)


def _published(table: SweepTable, space: Space) -> tuple[str, dict[str, tuple[str, str]]]:
    """What the paper prints: its metric, and by point its number and what was measured minus it, in points.

    Of the first metric and setting of which it prints any.
    """
    for setting, (metric, title) in itertools.product(table.settings, TITLES.items()):
        cells = {}
        for point in space.points:
            value = published_at(table, space, point, where(setting), metric)
            if value is not None:
                own = point.mean(f"{where(setting)}/{metric}")
                cells[point.label] = (percent(value), "" if math.isnan(own) else _signed(own - value))
        if cells:
            return f"{title} at {in_words(setting)}", cells
    return "", {}


def _cross(table: SweepTable, space: Space) -> str:
    """Two fields crossed, as the paper arranges them: macro-F1 at the smallest setting, the paper's in brackets."""
    down, across = reversed(space.varied) if space.varied[-1] == "mixup" else space.varied
    place, fields = where(table.settings[0]), {}
    for name in (down, across):
        fields[name] = list(dict.fromkeys(point.params[name] for point in space.points))
    rows = []
    for value in fields[down]:
        found = [space.find({down: value, across: other}) for other in fields[across]]
        rows.append([number(value), *(_cell(table, space, point, place) for point in found)])
    title = f"macro-F1 on test images, %, {in_words(table.settings[0])}; {down} downwards, {across} to the right"
    has_paper = any(published_at(table, space, point, place, PAPERS) for point in space.points)
    return f"{title}{'; in brackets the paper' * has_paper}:\n\n" + _table(
        [f"{down} \\ {across}", *map(number, fields[across])], rows
    )


def _cell(table: SweepTable, space: Space, point: Point | None, place: str) -> str:
    if point is None:
        return ""
    printed = published_at(table, space, point, place, PAPERS)
    return spread(point, f"{place}/{PAPERS}") + (f" ({percent(printed)})" if printed is not None else "")


def _lost(table: SweepTable) -> str:
    """One line for each failed and stopped trial, in that order."""
    lost = unfinished(table)
    lines = [
        f"- {row['status']}: {row['name']}, split {row['split_index']}"
        + (f": {row['reason']}" if row["reason"] else "")
        for row in lost[:LISTED]
    ]
    if len(lost) > LISTED:
        lines.append(f"- and {len(lost) - LISTED} more, in `trials.parquet`")
    return "\n".join(lines) + "\n"


def _table(header: list[str], rows: list[list[str]]) -> str:
    ruled = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return "\n".join([*ruled, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"
