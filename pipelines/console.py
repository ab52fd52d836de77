"""The terminal that commands print to."""

import sys

from rich.console import Console


def console() -> Console:
    """The terminal; a file or a pipe gets lines wide enough for the tables."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def utf8_text(text: str) -> str:
    r"""Names of files need not be UTF-8; terminals, tables and fonts take nothing else. Other bytes become \xNN."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def warn(text: str) -> None:
    """One line on stderr, for who has no console at hand."""
    print(f"proser: {utf8_text(text)}", file=sys.stderr, flush=True)


def say(console: Console, text: str) -> None:
    """One line, as it is."""
    console.print(utf8_text(text), highlight=False, markup=False, soft_wrap=True)
