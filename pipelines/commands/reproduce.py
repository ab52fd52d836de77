"""`proser reproduce NAME ...`: the tables and figures of the paper."""

import itertools
import shlex
from dataclasses import replace

from pipelines.commands.parsing import HELP, parse, parse_with_schedule, show_names
from pipelines.console import console
from pipelines.recipes.schedules import with_schedule
from pipelines.reproduction.protocols import PAPER_FIGURES, headlines
from pipelines.reproduction.request import FiguresRequest, ReproduceRequest, Settings
from proser_core.config import NetworkConfig, Recipe
from proser_core.errors import ConfigError
from proser_core.naming import unknown_name

PUBLISHED = Settings(network=NetworkConfig(dropout=0.2))
"""The network as published (Neal et al. 2018, Vaze et al. 2022); schedules too short for dropout take it out."""


def main(arguments: list[str]) -> int:
    """Reproduce tables, or draw the figures."""
    typed = list(itertools.takewhile(lambda word: not word.startswith("-"), arguments))
    names, options = tuple(dict.fromkeys(typed)), arguments[len(typed) :]
    if not names and arguments and not set(HELP) & set(arguments):
        raise ConfigError("the names come first: `proser reproduce NAME ...`; `proser reproduce --help` lists them")
    if not names:
        show_names("reproduce NAME", " [NAME ...] [options]", "Protocols", headlines(), arguments)
    for name in names:
        if name not in headlines():
            raise ConfigError(unknown_name("protocol", name, headlines()))
    command = shlex.join(["proser", "reproduce", *arguments])
    return _figures(names, options, command) if PAPER_FIGURES in names else _tables(names, options, command)


def _tables(names: tuple[str, ...], options: list[str], command: str) -> int:
    request = parse_with_schedule(
        lambda name: ReproduceRequest(names, with_schedule(PUBLISHED, name), command=command),
        f"reproduce {' '.join(names)}",
        options,
        "long",
    )
    from pipelines.reproduction.reproducing import reproduce  # it loads torch

    return reproduce(replace(request, recipe=Recipe(**vars(request.recipe))), console())


def _figures(names: tuple[str, ...], options: list[str], command: str) -> int:
    if len(names) > 1:
        others = " ".join(name for name in names if name != PAPER_FIGURES)
        raise ConfigError(f"{PAPER_FIGURES} has its own options; give `proser reproduce {others}` as another command")
    request = parse(FiguresRequest, f"reproduce {PAPER_FIGURES}", options)
    from pipelines.reproduction.figures import reproduce_figures  # it loads torch

    return reproduce_figures(request, command, console())
