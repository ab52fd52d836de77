"""The terminal that commands print to."""

import re
import sys

from rich.console import Console

from proser_core.errors import hide_secrets

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # but tabs and line breaks


def console() -> Console:
    """The terminal; a file or a pipe gets lines wide enough for the tables."""
    return Console() if sys.stdout.isatty() else Console(width=120)


def shown(text: str) -> str:
    r"""Text for people: other bytes than UTF-8, and control characters, as \xNN, because file names have them, and
    terminals obey them; passwords in URIs are hidden."""
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return hide_secrets(CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text))


def warn(text: str) -> None:
    """Print one line on stderr, where there is no console."""
    print(f"proser: {shown(text)}", file=sys.stderr, flush=True)


def say(console: Console, text: str) -> None:
    """Print one line as it is, without markup."""
    console.print(shown(text), highlight=False, markup=False, soft_wrap=True)
