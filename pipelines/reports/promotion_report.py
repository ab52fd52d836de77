"""What a promotion was decided on, for people: a table, a figure, and the note of its run."""

from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.figure import Figure
from rich import box
from rich.markup import escape
from rich.table import Table

from pipelines.console import TitledTable
from pipelines.reports.figures.style import BLUE, VERMILLION
from pipelines.reports.page import markdown_table
from proser_core.data.splits.class_split import in_words, setting_at
from proser_core.recognition.comparison import Comparison
from proser_core.titles import METRICS, best_marked, first_names, percent

DECIDE_NOTHING = "Test metrics, which decide nothing"


@dataclass(frozen=True)
class Contender:
    """One side of a comparison: `results` are its metrics by name, of another bias where it was `recalibrated`;
    `chosen_among` are the points that it is the best of."""

    title: str
    results: Mapping[str, float]
    recalibrated: bool = False
    chosen_among: int = 1

    def chosen(self) -> list[str]:
        """What its choice does to a comparison, as a line; none where there was nothing to choose."""
        if self.chosen_among == 1:
            return []
        return [
            f"{self.title} was chosen among {self.chosen_among} points on validation images and development unknowns; "
            "on these very images the intervals are too favourable to it"
        ]


def comparison_tables(comparison: Comparison, candidate: Contender, champion: Contender) -> list[Table]:
    """Tables for the terminal: the metrics that decide, then those on test images, if both have any."""
    bold = "[bold]{}[/bold]"
    deciding = _table(_title(comparison), candidate, champion, "95 % interval", "verdict")
    for row in _deciding(comparison, bold):
        deciding.add_row(*row)
    name = f"known rate{', of all its images' * bool(comparison.common)}"
    interval, target = f"to {percent(comparison.interval[1])}", f"target {100 * comparison.target_rate:.4g}"
    deciding.add_row(name, percent(comparison.known_rate), "", "", interval, target)
    tested = _table(DECIDE_NOTHING, candidate, champion)
    for row in _shown(candidate, champion, bold):
        tested.add_row(*row, style="dim")
    return [deciding, tested] if tested.rows else [deciding]


def _table(title: str, candidate: Contender, champion: Contender, *more: str) -> Table:
    table = TitledTable(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for place, name in enumerate(("", escape(candidate.title), escape(champion.title), "difference", *more)):
        table.add_column(name, justify="right" if place else "left", no_wrap=name.endswith("interval"))
    return table


def comparison_figure(comparison: Comparison, candidate: str, champion: str) -> Figure:
    """Differences with their intervals, and the tolerance."""
    names = list(comparison.differences)
    figure = Figure(figsize=(6.4, 2.4), layout="constrained")
    axes = figure.subplots()
    for place, name in enumerate(reversed(names)):
        each = comparison.differences[name]
        holds = comparison.holds(name)
        colour = BLUE if holds else VERMILLION
        if not comparison.distrusts(name):
            axes.plot([100 * each.low, 100 * each.high], [place, place], color=colour, linewidth=2)
        axes.plot(100 * each.difference, place, "o" if holds else "X", color=colour)
    axes.axvline(0, color="0.6", linewidth=0.8)
    axes.axvline(-100 * comparison.tolerance, color="0.3", linestyle="--", linewidth=1)
    axes.set_yticks(range(len(names)), [METRICS[name] for name in reversed(names)])
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_xlabel("points, candidate minus champion; dashed: what may be lost")
    axes.set_title(f"{candidate} against {champion}", fontsize=10, parse_math=False)
    return figure


def decision_note(
    title: str, comparison: Comparison | None, objections: list[str], candidate: Contender, champion: Contender
) -> str:
    """Markdown: what was decided, and all that it was decided on."""
    head = ("", candidate.title, champion.title, "difference")
    parts = [f"# {title}\n", *(f"- Objection: {objection}." for objection in objections)]
    parts += [] if objections else ["No objection."]
    if comparison is not None:
        parts += [
            f"\n{_title(comparison)}.\n",
            markdown_table([*head, "95 % interval", "verdict"], _deciding(comparison)),
        ]
        parts += [
            f"Known rate of the candidate on all its validation images: {percent(comparison.known_rate)} % "
            f"(95 % interval to {percent(comparison.interval[1])} %), target {100 * comparison.target_rate:.4g} %."
        ]
        parts += [f"\n{line[0].upper()}{line[1:]}." for line in differing_classes(comparison)]
        parts += [f"\n{line}." for line in candidate.chosen()]
    shown = _shown(candidate, champion)
    if shown:
        parts += [f"\n{DECIDE_NOTHING}:\n", markdown_table(head, shown).rstrip()]
    return "\n".join(parts) + "\n"


def differing_classes(comparison: Comparison) -> list[str]:
    """Lines on a comparison of two classifiers with different classes: what was compared, and which classes differ."""
    if not comparison.common:
        return []
    new = first_names(
        [
            f"{name} ({percent(named)} % of {count} validation images named correctly)"
            for name, (count, named) in comparison.new_classes.items()
        ]
    )
    return [
        f"compared on the {len(comparison.common)} classes that both know: {first_names(comparison.common)}; how well "
        "unknown images are found is not compared, since the images of unknown classes are not the same",
        *([f"new: {new}"] if new else []),
        *([f"lost: {first_names(comparison.lost_classes)}"] if comparison.lost_classes else []),
    ]


def metrics_of(comparison: Comparison) -> dict[str, float]:
    """Metrics for the run of the decision: differences and the ends of their intervals, fractions."""
    found = {"candidate/known_rate": comparison.known_rate}
    for name, each in comparison.differences.items():
        found |= {f"difference/{name}": each.difference, f"candidate/{name}": each.candidate}
        found[f"champion/{name}"] = each.champion
        if not comparison.distrusts(name):
            found |= {f"difference/{name}_low": each.low, f"difference/{name}_high": each.high}
    return found


def _title(comparison: Comparison) -> str:
    known, unknown = f"{comparison.num_known} validation images", f"{comparison.num_unknown} development unknowns"
    if comparison.by_proxies:
        images = f"{known}; macro-F1 and AUROC of the proxies, with {unknown}"
    else:
        images = f"{known} and {'no unknown ones' if comparison.common else unknown}"
    points = f"{100 * comparison.tolerance:g}"
    return f"in percent, on {images}; a loss of up to {points} point{'' if points == '1' else 's'} is accepted"


def _deciding(comparison: Comparison, best: str = "**{}**") -> list[list[str]]:
    return [
        [
            METRICS[name],
            *best_marked(name, [each.candidate, each.champion], best),
            f"{100 * each.difference:+.1f}",
            "too few images" if comparison.distrusts(name) else f"{100 * each.low:+.1f} to {100 * each.high:+.1f}",
            "holds" if comparison.holds(name) else "objection",
        ]
        for name, each in comparison.differences.items()
    ]


def _shown(candidate: Contender, champion: Contender, best: str = "**{}**") -> list[list[str]]:
    ours, theirs = candidate.results, champion.results
    names = [name for name in ours if name.startswith("test/") and name in theirs]
    kept = [name for name in names if name.count("/") == 1 or name.endswith(("auroc", "macro_f1"))]
    if candidate.recalibrated or champion.recalibrated:
        # the others depend on the bias
        kept = [name for name in kept if name.endswith(("auroc", "closed_set_accuracy"))]
    return [
        [
            _in_words(name),
            *best_marked(name, [ours[name], theirs[name]], best),
            f"{100 * (ours[name] - theirs[name]):+.1f}",
        ]
        for name in kept
    ]


def _in_words(metric: str) -> str:
    """A metric on test images in words: AUROC, 15 unknown."""
    place, _, name = metric.rpartition("/")
    return METRICS[name] if place == "test" else f"{METRICS[name]}, {in_words(setting_at(place))}"
