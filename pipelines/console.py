"""The terminal that commands print to."""

import sys

from rich.console import Console


def console() -> Console:
    """The terminal; a file or a pipe gets lines wide enough for the tables."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def say(console: Console, text: str) -> None:
    """One line, as it is."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)
