"""`proser list`: what there is to choose from by name."""

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.commands.parsing import parse
from pipelines.console import console
from pipelines.recipes import PRETRAINING, RECIPES, headline
from pipelines.reproduction.protocols import headlines
from proser_core.data.catalogue import SOURCES
from proser_core.data.data_sets import open_data_set
from proser_core.data.outliers.outlier_sets import OUTLIERS, open_outlier_set
from proser_core.data.splits.families import FAMILIES, Family
from tune_spaces import describe, space_names


@dataclass(frozen=True)
class ListRequest:
    """List recipes, pretraining schedules, search spaces, protocols, methods, class splits, data and outlier sets."""

    data_dir: Path | None = None
    """Directory in which to look for data sets."""


def main(arguments: list[str]) -> int:
    """Print the list."""
    print_listing(parse(ListRequest, "list", arguments).data_dir, console())
    return 0


def print_listing(data_dir: Path | None, console: Console) -> None:
    """One table per kind of name; data and outlier sets with the place where they were found."""
    from proser_core.baselines import METHODS  # it loads torch

    where = f"in {data_dir}" if data_dir else "no --data-dir given"
    sections = {
        "Recipes": {name: headline(make) for name, make in RECIPES.items()},
        "Pretraining schedules (--pretraining NAME)": {name: headline(make) for name, make in PRETRAINING.items()},
        "Search spaces": {name: describe(name) for name in space_names()},
        "Protocols of the paper (proser reproduce NAME)": headlines(),
        "Methods (proser reproduce --methods NAME ...)": {name: method.source for name, method in METHODS.items()},
        "Published class splits (--data.split-family NAME or --split-family NAME)": {
            name: _family(family) for name, family in FAMILIES.items()
        },
        f"Data sets ({where})": {name: _data_set(name, data_dir) for name in SOURCES},
        f"Outlier sets (--data.outliers NAME ...; {where})": {name: _outliers(name, data_dir) for name in OUTLIERS},
    }
    for title, rows in sections.items():
        table = Table(
            "name", "", title=escape(title), title_justify="left", show_header=False, box=None, title_style="bold"
        )
        for name, text in rows.items():
            table.add_row(f"  {name}", escape(text))
        console.print(table, highlight=False)


def _family(family: Family) -> str:
    defects = [f"- {names}: {defect}" for names, defect in family.defects_in_words.items()]
    return "\n".join([family.source, f"for {', '.join(family.has)}", *defects])


def _missing(needed: str, origin: str) -> str:
    """Of what is missing, the exact folders, and where to download them."""
    return f"not found; need {needed}" + (f". Download it from {origin}" if origin else "")


def _data_set(name: str, data_dir: Path | None) -> str:
    data = open_data_set(name, data_dir)
    return data.layout.name if data.layout else _missing(data.source.needs, data.source.origin)


def _outliers(name: str, data_dir: Path | None) -> str:
    outliers = open_outlier_set(name, data_dir)
    if outliers.place is None:
        return _missing(outliers.source.needs, outliers.source.origin)
    return outliers.note or outliers.place.layout
