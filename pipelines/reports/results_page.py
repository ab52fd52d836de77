"""results.md of a run or a sweep: what was selected, the methods side by side, and a section per search space."""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from pipelines.reports.page import markdown_table
from pipelines.reports.spaces import OWN_SPACE, Space, Verdict, methods_of, published_at, spaces_of, verdicts
from pipelines.reports.sweep_table import (
    Point,
    SweepTable,
    controls_of,
    difference,
    mean,
    number,
    spread,
    spreads,
    std,
    unfinished,
)
from proser_core import titles
from proser_core.config import to_json
from proser_core.config.named_finetunes import PLACEHOLDER_FIELDS
from proser_core.data.splits.class_split import in_words, where
from proser_core.jobs.spec import SELECTION_METRIC
from proser_core.recognition.result_tables import known_columns, known_legend
from proser_core.titles import counted, percent

LISTED = 30  # trials without a result that are listed
TO_BEAT = (titles.MAX_LOGIT, titles.scored(titles.CONTROL, titles.MAX_LOGIT))
"""Controls that a point has to beat."""


def results_page(
    table: SweepTable,
    facts: Sequence[str] = (),
    notes: Mapping[str, str] | None = None,
    chapters: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """Markdown; `facts` are sentences on selection and calibration of a run, `notes` those on its images by name,
    `chapters` lines on the selected point by title."""
    parts = [overview(table, facts), "## Methods\n", _points_table(table, methods_of(table))]
    for title, lines in (chapters or {}).items():
        parts += [f"## {title}\n", *lines, ""]
    for space in spaces_of(table):
        if len(space.points) > 1:
            parts += [f"## {space.title}\n", *_section(space)]
    lost = unfinished(table)
    if lost:
        parts += ["## Trials without a result\n", _lost(table)]
    return "\n".join([*parts, *_legend(table, notes or {})])


def _legend(table: SweepTable, notes: Mapping[str, str]) -> list[str]:
    """Openness, notes, and where the rest is."""
    found = {in_words(setting): table.split.openness(setting) for setting in table.settings}
    openness = ", ".join(f"{name} {100 * each:.2f} %" for name, each in found.items() if each is not None)
    lines = [f"Openness: {openness}."] if openness else []
    lines += [f"{name}: {note}." for name, note in notes.items()]
    return [*lines, "`tables/trials.parquet` has every trial and metric.\n"]


def overview(table: SweepTable, facts: Sequence[str] = ()) -> str:
    """What was selected in each space and how it compares with the controls, in a few lines of Markdown."""
    splits, spaces = ", ".join(map(str, table.splits)), spaces_of(table)
    named = [space.title for space in spaces if space.name != OWN_SPACE]
    searched = f", search space{'s' * (len(named) > 1)} {', '.join(named)}" if named else ""
    found = Counter(row["status"] for row in table.rows)
    counts = [counted(len(table.rows), "trial"), f"{found['finished']} finished"]
    counts += [f"{found[status]} {status}" for status in ("failed", "stopped") if found[status]]
    deviation = " Means ± standard deviation of the sample over splits." if len(table.splits) > 1 else ""
    lines = [
        f"# Results of recipe {table.recipe}{searched}",
        "",
        f"Class split{'s' * (len(table.splits) > 1)} {splits}; {', '.join(counts)}.{deviation}",
        *facts,
        "",
    ]
    if not table.has_development:
        return "\n".join(lines)
    if any(len(space.points) > 1 for space in spaces):
        lines += [
            "Points are selected on validation images and development unknowns, by macro-F1; test images only report. "
            "Development metrics of a selected point are optimistic: the same images selected it.",
            "",
        ]
    for space in spaces:
        lines += [f"- **{space.title}**: {_selected(space)}", *(f"  {line}" for line in _against(space))]
    return "\n".join(lines) + "\n"


def _selected(space: Space) -> str:
    chosen = space.selected
    if chosen is None:
        return "no point finished."
    how = "selected" if len(space.points) > 1 else "the only point,"
    found = f"{how} {chosen.label}; development macro-F1 {spread(chosen, SELECTION_METRIC)}"
    for setting in space.table.settings[:1]:
        macro_f1, auroc = (spread(chosen, f"{where(setting)}/{metric}") for metric in ("macro_f1", "auroc"))
        found += f", test at {in_words(setting)}: macro-F1 {macro_f1}, {titles.METRICS['auroc']} {auroc}"
    return f"{found}."


def _against(space: Space) -> list[str]:
    """Whether any point is above the controls on the metric that selects, by means over common splits."""
    lines: list[str] = []
    chosen = space.selected
    if chosen is None:
        return lines
    for control in controls_of(space.table):
        found = [(point, each) for point in space.ranked if (each := difference(point, control, SELECTION_METRIC))]
        if control.label not in TO_BEAT or not found:
            continue
        if len(space.points) == 1:
            lines.append(f"On development macro-F1 it differs from {control.label} by {_points(found[0][1])}.")
            continue
        above = sum(mean(each) > 0 for _, each in found)
        best, nearest = max(found, key=lambda both: mean(both[1]))
        if above:
            own = difference(chosen, control, SELECTION_METRIC)
            lines.append(
                f"Above {control.label} on development macro-F1: {above} of {len(found)} points; the selected one "
                f"differs by {_points(own)}."
            )
        else:
            lines.append(
                f"No point is above {control.label} on development macro-F1: the nearest, {best.label}, differs by "
                f"{_points(nearest)}."
            )
    return [*lines, *_other_schedule(chosen, to_json(space.table.own))] if lines else []


def _other_schedule(chosen: Point, usual: Mapping[str, Any]) -> list[str]:
    """What of the selected point's training the controls do not share: they have the recipe's `usual` fields."""
    shared = [name for name in usual if name in chosen.params and name not in ("objective", *PLACEHOLDER_FIELDS)]
    others = [name for name in shared if chosen.params[name] != usual[name]]
    if not others:
        return []
    found = ", ".join(f"{name} {number(chosen.params[name])} instead of {number(usual[name])}" for name in others)
    return [f"The selected point has {found}; the controls have the recipe's, which may be a part of the difference."]


def _points(differences: list[float]) -> str:
    """A mean difference in points of percent, with its standard deviation over splits."""
    if not differences:
        return "an unknown amount (no split in common)"
    deviation = "" if math.isnan(std(differences)) else f" ± {percent(std(differences))}"
    return f"{_signed(mean(differences))}{deviation} points"


def _signed(difference: float) -> str:
    """A difference in points of percent; never -0.0."""
    return f"{round(100 * difference, 1) + 0.0:+.1f}"


def _section(space: Space) -> list[str]:
    parts = [f"{space.info.headline}\n"] if space.info.headline else []
    parts.append(_points_table(space.table, space.points, space))
    if len(space.varied) == 2 and len(space.points) > 2 and space.is_grid and space.table.settings:
        parts.append(_cross(space))
    claims = [_claim(found) for _, found in itertools.groupby(verdicts(space), lambda verdict: verdict.claim)]
    return [*parts, "\n".join(claims) + "\n"] if claims else parts


def _claim(found: Iterable[Verdict]) -> str:
    """A claim of the paper, and how many of its pairs are so here at each setting."""
    several = list(found)
    claim = several[0].claim
    counts = ", ".join(f"{each.held} of {each.measured} ({each.setting} unknown)" for each in several)
    return f"- The paper: {claim.says} ({claim.source}). Pairs of points that are in this order here: {counts}."


def _points_table(table: SweepTable, points: list[Point], space: Space | None = None) -> str:
    """A row per point or method: AUROC / macro-F1 on development and at each setting, metrics of known test images, and
    the paper's number. Above it what the cells mean."""
    places = {"development": "dev"} if table.has_development else {}
    places |= {in_words(setting): where(setting) for setting in table.settings}
    title, printed = _published(space) if space else ("", {})
    several, known = len(table.splits) > 1, known_columns(partial(spreads, points))
    header = ["point" if space else "method", *["splits"] * several, *places, *known]
    header += [f"paper, {title}", "difference"] if printed else []
    rows, measured = [], _cells(points, list(places.values()), list(known.values()))
    for point, cells in zip(points, measured, strict=True):
        name = f"**{point.label}** (selected)" if space and point is space.selected else point.label
        counts = [f"{point.num_finished} of {len(table.splits)}"] * several
        published = printed.get(point.label, ("", "")) if printed else ()
        rows.append([name, *counts, *cells, *published])
    pairs = f"{titles.METRICS['auroc']} / {titles.METRICS['macro_f1']}; " if places else ""
    return f"In percent: {pairs}{known_legend(known)}.\n\n{markdown_table(header, rows)}"


def _cells(points: Sequence[Point], places: Sequence[str], known: Sequence[str]) -> list[list[str]]:
    """The metrics of each point, the best of a column bold; of one that finished nowhere, its status and what it had
    reached."""
    both = [[spreads(points, f"{place}/{metric}") for metric in ("auroc", "macro_f1")] for place in places]
    columns = [[f"{auroc} / {macro_f1}" for auroc, macro_f1 in zip(*each, strict=True)] for each in both]
    columns += [spreads(points, metric) for metric in known]
    found = zip(points, *columns, strict=True)
    return [list(cells) if point.num_finished else _outcome(point, len(columns)) for point, *cells in found]


def _outcome(point: Point, width: int) -> list[str]:
    reached = point.last(SELECTION_METRIC)
    outcome = point.status + ("" if math.isnan(reached) else f" at macro-F1 {percent(reached)}")
    return [outcome, *[""] * (width - 1)]


def _published(space: Space) -> tuple[str, dict[str, tuple[str, str]]]:
    """What the paper prints: its metric, and by point its number and what was measured minus it, in points. Of the
    first metric and setting of which it prints any."""
    for setting, metric in itertools.product(space.table.settings, ("auroc", "macro_f1")):
        cells = {}
        for point in space.points:
            value = published_at(space, point, f"{where(setting)}/{metric}")
            if value is not None:
                own = point.mean(f"{where(setting)}/{metric}")
                cells[point.label] = (percent(value), "" if math.isnan(own) else _signed(own - value))
        if cells:
            return f"{titles.METRICS[metric]} at {in_words(setting)}", cells
    return "", {}


def _cross(space: Space) -> str:
    """Two fields crossed, as the paper arranges them: macro-F1 at the smallest setting, the paper's in brackets."""
    down, across = reversed(space.varied) if space.varied[-1] == "mixup" else space.varied
    setting = space.table.settings[0]
    metric = f"{where(setting)}/macro_f1"
    ys, xs = (list(dict.fromkeys(point.params[name] for point in space.points)) for name in (down, across))
    measured = {p.label: text for p, text in zip(space.points, spreads(space.points, metric), strict=True)}

    def cell(point: Point | None) -> str:
        printed = published_at(space, point, metric) if point else None
        return (measured[point.label] if point else "") + (f" ({percent(printed)})" if printed is not None else "")

    rows = [[number(y), *(cell(space.find({down: y, across: x})) for x in xs)] for y in ys]
    title = f"macro-F1 on test images, %, {in_words(setting)}; {down} downwards, {across} to the right"
    has_paper = any(published_at(space, point, metric) for point in space.points)
    return f"{title}{'; in brackets the paper' * has_paper}:\n\n" + markdown_table(
        [f"{down} \\ {across}", *map(number, xs)], rows
    )


def _lost(table: SweepTable) -> str:
    """One line for each failed and stopped trial, in that order."""
    lost = unfinished(table)
    lines = []
    for row in lost[:LISTED]:
        reason = f": {row['reason']}" if row["reason"] else ""
        lines.append(f"- {row['status']}: {row['name']}, split {row['split_index']}{reason}")
    if len(lost) > LISTED:
        lines.append(f"- and {len(lost) - LISTED} more, in `tables/trials.parquet`")
    return "\n".join(lines) + "\n"
