"""What `proser list` prints."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from pipelines.recipes import PRETRAINING, RECIPES, headline
from pipelines.reproduction.protocols import headlines
from proser_core.data.outlier_sets import OUTLIERS, find_outliers
from proser_core.data.sources import SOURCES, find_layout
from proser_core.data.split_families import FAMILIES
from tune_spaces import describe, space_names


def print_listing(data_dir: Path | None, console: Console) -> None:
    """What there is to choose from by name; of data and outlier sets, where they were found."""
    from proser_core.baselines import METHODS  # it loads torch

    missing = f"not found ({data_dir or 'no --data-dir given'})"
    found = {name: find_layout(source, data_dir) or _named(missing, source.origin) for name, source in SOURCES.items()}
    outliers = {name: _outliers(name, data_dir) or _named(missing, each.origin) for name, each in OUTLIERS.items()}
    sections = {
        "Recipes": {name: headline(make) for name, make in RECIPES.items()},
        "Pretraining schedules (--pretraining NAME)": {name: headline(make) for name, make in PRETRAINING.items()},
        "Search spaces": {name: describe(name) for name in space_names()},
        "Protocols of the paper (proser reproduce NAME)": headlines(),
        "Methods (proser reproduce --methods NAME ...)": {name: method.source for name, method in METHODS.items()},
        "Published class splits (--data.split-family NAME)": {
            name: f"{family.source}: {', '.join(family.known)}" for name, family in FAMILIES.items()
        },
        "Data sets": found,
        "Outlier sets (--data.outliers NAME ...)": outliers,
    }
    for title, rows in sections.items():
        table = Table("name", "", title=title, title_justify="left", show_header=False, box=None, title_style="bold")
        for name, text in rows.items():
            table.add_row(f"  {name}", text)
        console.print(table, highlight=False)


def _named(missing: str, origin: str) -> str:
    return f"{missing}: {origin}" if origin else missing


def _outliers(name: str, data_dir: Path | None) -> str:
    place = find_outliers(name, data_dir)
    return "" if place is None else place.note or place.layout
