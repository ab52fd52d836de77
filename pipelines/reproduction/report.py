"""The report of a reproduction: Markdown, one HTML file that needs no network, figures, and every number as CSV."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from pipelines.console import TitledTable
from pipelines.output_files import FIGURES, RESULTS, TABLES
from pipelines.reports.figures.style import save
from pipelines.reports.page import HTML, Made, Section, anchor, embedded, write_page
from pipelines.reports.sweep_table import images_title
from pipelines.reproduction.drawing import figures_of
from pipelines.reproduction.own_network_outcomes import OwnNetworkOutcome, picture_figures
from pipelines.reproduction.protocols import PERMUTED, PROTOCOLS, STUDIES
from pipelines.reproduction.results import SplitResult, TableColumn, cells_of, table_column
from proser_core.data.splits.families import defect_of
from proser_core.store.files import write_json

NUMBERS, RECIPES = f"{TABLES}/results.csv", f"{TABLES}/recipes.json"


def write_report(
    names: Sequence[str],
    families: dict[str, str],
    results: list[SplitResult],
    recipes: Mapping[str, Sequence[Any]],
    made: Made,
    folder: Path,
    outcomes: Sequence[OwnNetworkOutcome] = (),
) -> None:
    """A section for each protocol. By study, `families` are the class lists, `recipes` those of each split as JSON;
    `outcomes` are what networks of methods' own say of themselves."""
    sections = []
    for name in names:
        protocol = PROTOCOLS[name]
        columns = [table_column(column, results, families[column.study]) for column in protocol.columns]
        figures = []
        for kind, figure in figures_of(name, columns, _images(columns, recipes), made.facts).items():
            stem = folder / FIGURES / f"{anchor(name)}_{kind}"
            save(figure, stem)
            figures.append(embedded(stem.with_suffix(".svg"), f"{name}: {kind.replace('_', ' ')}", folder))
        of = {each: f"{STUDIES[each].title}, " if len(protocol.studies) > 1 else "" for each in protocol.studies}
        own = [each for each in outcomes if each.study in protocol.studies]
        for study, title, figure in picture_figures(own):
            stem = folder / FIGURES / anchor(f"{name}_{of[study]}{title}")
            save(figure, stem)
            figures.append(embedded(stem.with_suffix(".svg"), of[study] + title, folder))
        tables = [_in_words(each) for each in columns]
        points = [of[each.study] + each.in_words() for each in own if each.facts]
        points += [
            f"{of[each.study]}{each.method}, class split {each.split_index}: {each.choice}"
            for each in results
            if each.choice and each.study in protocol.studies
        ]
        sections.append(Section(name, protocol.headline, protocol.source, protocol.note, figures, tables, points))
    title = f"{', '.join(names)}: measured and published results"
    for target in (HTML, RESULTS):
        write_page(title, sections, made, folder / target)
    (folder / TABLES).mkdir(exist_ok=True)  # an interrupted attempt may have made it
    write_numbers(results, families, folder / NUMBERS)
    write_json(folder / RECIPES, recipes)


def write_numbers(results: Sequence[SplitResult], families: Mapping[str, str], path: Path) -> None:
    """One row per metric, a fraction, of each method on each class split; also the seconds of its trainings."""
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["study", "family", "split_index", "method", "metric", "value"])
        for each in results:
            about = [each.study, families[each.study], each.split_index, each.method]
            rows.writerows([*about, *metric] for metric in each.numbers().items())


def _images(columns: Sequence[TableColumn], recipes: Mapping[str, Sequence[Any]]) -> str:
    """Data set, class splits and seeds of what was measured in any column, each once."""
    titles = (_title(each, recipes[each.spec.study]) for each in columns if each.splits)
    return "; ".join(dict.fromkeys(titles))


def _title(found: TableColumn, recipes: Sequence[Any]) -> str:
    seeds = [each["seed"] for each in recipes if each["data"]["split_index"] in found.splits]
    return images_title(STUDIES[found.spec.study].data_of(found.family, 0), found.splits, seeds)


def _in_words(found: TableColumn) -> dict[str, Any]:
    column = found.spec
    data = STUDIES[column.study].data
    family = found.family
    return {
        "title": column.title,
        "unit": column.unit,
        "family": family,
        "splits": ", ".join(map(str, found.splits)),
        "defect": "" if family == PERMUTED else defect_of(family, data.name, data.unknown),
        "rows": [{**cells, "best": row in found.best} for row in found.rows for cells in cells_of(row)],
        "sources": _sources(found),
        "verdicts": found.verdicts,
    }


def _sources(found: TableColumn) -> str:
    """Where the published numbers of a column stand, each place once with the methods that it is for."""
    methods: dict[str, list[str]] = {}
    for row in found.rows:
        for each in row.quoted:
            methods.setdefault(each.source, []).append(row.method)
    return "; ".join(f"{', '.join(names)}: {source}" for source, names in methods.items())


def terminal_table(protocol: str, found: TableColumn) -> Table:
    """A column of a protocol for the terminal: the methods that were measured."""
    lists = f", class lists of {found.family}" if found.family else ""
    title = f"{protocol}, {found.spec.title}: {found.spec.unit}{lists}"
    table = TitledTable(title=title, box=box.SIMPLE_HEAD)
    rows = [row for row in found.rows if row.values]
    heads = {"method": "method", "measured": "measured", "count": "splits"}
    if any(row.quoted for row in rows):
        heads |= {"published": "published", "difference": "difference", "family": "its lists"}
    for name, head in heads.items():
        is_text = name in ("method", "family")
        table.add_column(head, justify="left" if is_text else "right", no_wrap=name != "method")
    for row in rows:
        first = cells_of(row)[0]
        if row in found.best:
            first["measured"] = f"[bold]{first['measured']}[/bold]"
        table.add_row(*(first[name] for name in heads))
    return table
