"""The terminal that commands print to, and its Ctrl-C."""

import os
import re
import signal
import sys
import threading
from copy import copy
from shutil import get_terminal_size

from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import StyleType
from rich.table import Table
from rich.text import TextType

from proser_core.errors import hide_secrets
from proser_core.exit_codes import filled, print_error

CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")  # but tabs


def console() -> Console:
    """The terminal, or as wide as COLUMNS says; else a file or a pipe gets lines wide enough for the tables."""
    columns, is_terminal = os.environ.get("COLUMNS", ""), sys.stdout.isatty()
    if (columns.isdecimal() and int(columns)) or (is_terminal and not columns.isdigit()):
        return Console()  # as wide as the window, also once that is another
    width, height = get_terminal_size() if is_terminal else (120, 25)
    return Console(width=width, height=height)  # without both, rich takes any digit for a width, 0 and ² too


class TitledTable(Table):
    """A table with its title and caption as lines of their own: rich would wrap them at the width of the table."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not (self.title or self.caption):
            yield from super().__rich_console__(console, options)
            return
        bare = copy(self)
        bare.title = bare.caption = None
        yield from _annotation(self.title, self.title_style or "table.title", console)
        yield bare
        yield from _annotation(self.caption, self.caption_style or "table.caption", console)


def _annotation(text: TextType | None, style: StyleType, console: Console) -> RenderResult:
    if text:
        yield console.render_str(text, style=style, highlight=False) if isinstance(text, str) else text


def utf8_text(text: str) -> str:
    r"""Text with other bytes than UTF-8 as \xNN: file names have them, and files of text and fonts reject them."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def shown(text: str) -> str:
    r"""A line for the terminal: control characters, which it would obey, as \xNN too, also the line breaks that file
    names may have; passwords in URIs hidden."""
    return hide_secrets(CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", utf8_text(text)))


def warn(text: str) -> None:
    """Print one line on stderr, where there is no console."""
    print_error(f"proser: {shown(text)}")


def say(console: Console, text: str) -> None:
    """Print one line as it is, without markup; on a terminal a sentence is broken between words, where nothing in it is
    to be copied."""
    text = shown(text)
    if console.is_terminal:
        text = filled(text, console.width)
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def interrupt() -> None:
    """End the main thread's work from another thread, as Ctrl-C does, or as SIGTERM where that is ignored, as in the
    background of a script."""
    is_heard = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT if is_heard else signal.SIGTERM)
