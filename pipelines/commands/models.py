"""`proser models`: list the versions of a registered model."""

import shlex
import time
from dataclasses import dataclass

from rich import box
from rich.console import Console

from pipelines.commands.parsing import parse
from pipelines.console import TitledTable, console, say
from pipelines.tracking.server import all_pages, connect, shown_uri
from pipelines.workflow.requests import ModelName
from proser_core.titles import METRICS, best_marked, first_names

UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
HEADS = (METRICS["macro_f1"], METRICS["auroc"], "accuracy", "known")
"""Of SHOWN, in its order: on validation images and development unknowns."""


@dataclass(frozen=True)
class ModelsRequest:
    """List the versions of a registered model: aliases, metrics on validation and development images, age."""

    model_name: ModelName = ""


def main(arguments: list[str]) -> int:
    """Print the table."""
    print_models(parse(ModelsRequest, "models", arguments).model_name, console())
    return 0


def print_models(name: str, console: Console) -> None:
    """One row per version, newest first; of the only model where no name is given. Raises TrackingError where there is
    none."""
    from pipelines.tracking import versions as registered  # it loads mlflow

    client = connect()
    name = registered.model_named(client, name)
    versions = registered.existing_versions(client, name)
    say(console, f"{name} in {shown_uri()}")
    caption = "in percent, on validation and development images, or the proxy's where every class is known"
    table = TitledTable(caption=caption, box=box.SIMPLE_HEAD, padding=0)
    table.add_column("version", justify="right", no_wrap=True)
    for head in ("aliases", "recipe"):  # these are copied
        table.add_column(head, no_wrap=True)
    for head in (*HEADS, "age"):
        table.add_column(head, justify="right", overflow="fold")
    aliases = client.get_registered_model(name).aliases
    columns = [
        best_marked(metric, [float(version.tags.get(metric, "nan")) for version in versions], "[bold]{}[/bold]")
        for metric in registered.SHOWN
    ]
    for version, *figures in zip(versions, *columns, strict=True):
        seconds = time.time() - version.created
        age = next((f"{seconds / size:.0f} {unit}" for size, unit in UNITS if seconds >= size), "now")
        recalibrated = []
        if source := version.tags.get(registered.CALIBRATED_FROM):
            rate = registered.target_rate_of(client, version)
            recalibrated = [f"recalibrated from {source}", *([f"to keep {100 * rate:.4g} %"] if rate else [])]
        table.add_row(
            version.number,
            "\n".join(sorted(alias for alias, number in aliases.items() if str(number) == version.number)),
            "\n".join([version.tags.get("proser.recipe", ""), *recalibrated]),
            *figures,
            age,
        )
    console.print(table)
    names = {model.name for model in all_pages(client.search_registered_models)}
    if others := sorted(names - {name}):
        say(console, f"other models: {first_names(others)}; --model-name {shlex.quote(others[0])}")
