"""`proser list`: what there is to choose from by name."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pipelines.commands.parsing import parse
from pipelines.console import TitledTable, console, say
from pipelines.recipes import RECIPES, headline
from pipelines.recipes.schedules import PRETRAINING
from pipelines.reproduction.protocols import PERMUTED, headlines
from proser_core.data.catalogue import SOURCES
from proser_core.data.data_sets import open_data_set
from proser_core.data.outliers.outlier_sets import OUTLIERS, open_outlier_set
from proser_core.data.splits.families import FAMILIES, Family
from proser_core.errors import ConfigError
from proser_core.naming import look_up
from tune_spaces import describe, space_names

if TYPE_CHECKING:
    from proser_core.recognition.scores import ScoreFunction

OUR_OWN = """for any data set: its class ids permuted by the index of the class split
- only a value of --split-family; for `proser run` and `sweep`, omit --data.split-family instead"""


@dataclass(frozen=True)
class ListRequest:
    """List the names that options take: all names, or one kind with explanations."""

    kind: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="[KIND]")] = ""
    """recipes, pretraining, spaces, protocols, methods, scores, splits, data or outliers; without it, the names of all
    kinds."""
    data_dir: Path | None = None
    """Directory in which to look for data sets."""


class Kind(NamedTuple):
    """One kind of name: its title, its names, and what each of them means."""

    title: str
    names: Iterable[str]
    describe: Callable[[str], str]


def main(arguments: list[str]) -> int:
    """Print the list."""
    request = parse(ListRequest, "list", arguments)
    return print_listing(request.kind, request.data_dir, console())


def print_listing(kind: str, data_dir: Path | None, console: Console) -> int:
    """A table of one kind, data and outlier sets with the place where they were found; or the names of every kind.
    Raises ConfigError for an unknown kind, or a folder that does not exist."""
    if data_dir is not None and not data_dir.is_dir():
        raise ConfigError(f"--data-dir got {data_dir}, which is not a folder; give the one that holds the data sets")
    kinds = _kinds(data_dir)
    if kind:
        _print_table(look_up("kind of list", kind, kinds), console)
        return 0
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, each in kinds.items():
        table.add_row(name, "; ".join(each.names))
    console.print(table, highlight=False)
    say(console, "`proser list KIND` explains each name of a kind, such as `proser list recipes`")
    return 0


def _kinds(data_dir: Path | None) -> dict[str, Kind]:
    from proser_core.baselines import METHODS  # these load scipy: not for --help
    from proser_core.recognition.scores import FURTHER_SCORES, SCORES

    scores = {**SCORES, **FURTHER_SCORES}
    where = f"in {data_dir}" if data_dir else "no --data-dir given"
    return {
        "recipes": Kind("Recipes", RECIPES, lambda name: headline(RECIPES[name])),
        "pretraining": Kind(
            "Pretraining schedules (--pretraining NAME)", PRETRAINING, lambda name: headline(PRETRAINING[name])
        ),
        "spaces": Kind("Search spaces", space_names(), describe),
        "protocols": Kind(
            "Protocols of the paper (proser reproduce NAME)", headlines(), lambda name: headlines()[name]
        ),
        "methods": Kind("Methods (proser reproduce --methods NAME ...)", METHODS, lambda name: METHODS[name].source),
        "scores": Kind(
            "Scores (--calibration.score NAME, or auto)",
            scores,
            lambda name: f"{scores[name].source}{_reads(scores[name])}",
        ),
        "splits": Kind(
            "Published class splits (--data.split-family NAME or --split-family NAME), and our own",
            (*FAMILIES, PERMUTED),
            lambda name: OUR_OWN if name == PERMUTED else _family(FAMILIES[name]),
        ),
        "data": Kind(f"Data sets ({where})", SOURCES, lambda name: _data_set(name, data_dir)),
        "outliers": Kind(
            f"Outlier sets (--data.outliers NAME ...; {where})", OUTLIERS, lambda name: _outliers(name, data_dir)
        ),
    }


def _reads(score: "type[ScoreFunction]") -> str:
    """What a score reads beside the known logits."""
    found = {
        "dummies": score.needs_dummies,
        "embeddings": score.needs_embeddings,
        "training images": score.reads_training,
    }
    names = " and ".join(name for name, is_read in found.items() if is_read)
    return f"; reads {names}" if names else ""


def _print_table(kind: Kind, console: Console) -> None:
    table = TitledTable(title=escape(kind.title), show_header=False, box=None, title_style="bold")
    for name in kind.names:
        table.add_row(f"  {name}", escape(kind.describe(name)))
    console.print(table, highlight=False)


def _family(family: Family) -> str:
    defects = [f"- {names}: {defect}" for names, defect in family.defects_in_words.items()]
    return "\n".join([family.source, f"for {', '.join(family.has)}", *defects])


def _missing(needed: str, origin: str) -> str:
    """That images are missing: the exact folders, and where to download them."""
    return f"not found; needs {needed}" + (f". Download it from {origin}" if origin else "")


def _data_set(name: str, data_dir: Path | None) -> str:
    data = open_data_set(name, data_dir)
    return data.layout.name if data.layout else _missing(data.source.needs, data.source.origin)


def _outliers(name: str, data_dir: Path | None) -> str:
    outliers = open_outlier_set(name, data_dir)
    if outliers.place is None:
        return _missing(outliers.source.needs, outliers.source.origin)
    return outliers.note or outliers.place.layout
