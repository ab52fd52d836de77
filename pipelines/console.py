"""The terminal that commands print to."""

import sys

from rich.console import Console


def console() -> Console:
    """The terminal; a file or a pipe gets lines wide enough for the tables."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def utf8_text(text: str) -> str:
    r"""Text with other bytes than UTF-8 as \xNN: file names have them, and terminals, tables and fonts reject them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def warn(text: str) -> None:
    """Print one line on stderr, where there is no console."""
    print(f"proser: {utf8_text(text)}", file=sys.stderr, flush=True)


def say(console: Console, text: str) -> None:
    """Print one line as it is, without markup."""
    console.print(utf8_text(text), highlight=False, markup=False, soft_wrap=True)
