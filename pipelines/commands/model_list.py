"""`proser models`: the versions of a registered model."""

import time

from rich import box
from rich.console import Console
from rich.table import Table

from pipelines.console import say
from pipelines.tracking.models import existing_versions
from pipelines.tracking.registry import FIGURE, SHOWN
from pipelines.tracking.server import connect, shown_uri
from proser_core.titles import percent

UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
HEADS = ("macro-F1", "AUC", "accuracy", "known")
"""Of SHOWN, in its order: on validation images and development unknowns."""


def print_models(name: str, console: Console) -> None:
    """A row a version, newest first. Raises TrackingError where there is none."""
    client = connect()
    versions = existing_versions(client, name)
    say(console, f"{name} in {shown_uri()}")
    caption = "on validation and development images, in percent; where every class is known, its proxy's first two"
    table = Table(caption=caption, caption_justify="left", box=box.SIMPLE_HEAD)
    for head in ("version", "aliases", "recipe", *HEADS, "age"):
        table.add_column(head, justify="left" if head in ("aliases", "recipe") else "right")
    aliases = client.get_registered_model(name).aliases
    for version in versions:
        figures = [version.tags.get(f"{FIGURE}{metric}") for metric in SHOWN]
        table.add_row(
            version.number,
            ", ".join(sorted(alias for alias, number in aliases.items() if str(number) == version.number)),
            version.tags.get("proser.recipe", ""),
            *("-" if figure is None else percent(float(figure)) for figure in figures),
            _age(time.time() - version.created),
        )
    console.print(table)


def _age(seconds: float) -> str:
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return "now"
