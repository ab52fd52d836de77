"""The terminal that commands print to."""

import re
import sys

from rich.console import Console

from proser_core.errors import hide_secrets

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # but tabs and line breaks


def console() -> Console:
    """The terminal; a file or a pipe gets lines wide enough for the tables."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def utf8_text(text: str) -> str:
    r"""Text with other bytes than UTF-8 as \xNN: file names have them, and files of text and fonts reject them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def shown(text: str) -> str:
    r"""Text for the terminal: control characters, which it would obey, as \xNN too, and passwords in URIs hidden."""
    return hide_secrets(CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", utf8_text(text)))


def warn(text: str) -> None:
    """Print one line on stderr, where there is no console."""
    print(f"proser: {shown(text)}", file=sys.stderr, flush=True)


def say(console: Console, text: str) -> None:
    """Print one line as it is, without markup."""
    console.print(shown(text), highlight=False, markup=False, soft_wrap=True)
