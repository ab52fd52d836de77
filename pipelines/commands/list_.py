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
from proser_core.data.catalogue import SOURCES, find_layout, needs
from proser_core.data.outliers.outlier_sets import OUTLIERS, find_outliers
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
    found = {
        name: find_layout(source, data_dir) or _missing(needs(source), source.origin)
        for name, source in SOURCES.items()
    }
    sections = {
        "Recipes": {name: headline(make) for name, make in RECIPES.items()},
        "Pretraining schedules (--pretraining NAME)": {name: headline(make) for name, make in PRETRAINING.items()},
        "Search spaces": {name: describe(name) for name in space_names()},
        "Protocols of the paper (proser reproduce NAME)": headlines(),
        "Methods (proser reproduce --methods NAME ...)": {name: method.source for name, method in METHODS.items()},
        "Published class splits (--data.split-family NAME or --split-family NAME)": {
            name: _family(family) for name, family in FAMILIES.items()
        },
        f"Data sets ({where})": found,
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
    """What to put where, for data that was not found."""
    return f"not found; need {needed}" + (f". Download it from {origin}" if origin else "")


def _outliers(name: str, data_dir: Path | None) -> str:
    place, about = find_outliers(name, data_dir), OUTLIERS[name]
    return _missing(about.needs, about.origin) if place is None else place.note or place.layout
