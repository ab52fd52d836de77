"""How a command ends: its exit code, and an error as one line on stderr."""

import errno
import io
import os
import re
import select
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable

from proser_core.errors import ProserError, StorageError, TrainingError, hide_secrets
from proser_core.store.files import DISK_FULL

NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""Errors of the system that a user's path can cause; any other one is a fault of the program."""
GOES_ON = "; the same command continues from the last finished epoch"
COPIED = re.compile(r"[/\\]|^ *proser ")  # in a line with a path, a URI or a command, which a break would damage
COMMAND = re.compile(r"`[^`]*`")  # in a sentence
HANGING = "  "  # of an error's further lines


def filled(line: str, width: int) -> str:
    """A line for a terminal, broken between words where nothing in it is to be copied."""
    return line if COPIED.search(line) else _broken(line, width)


def _broken(line: str, width: int, hanging: str = "") -> str:
    """A line broken between words, but in no command, and in no path or URI without spaces."""
    indent = line[: len(line) - len(line.lstrip(" "))] + hanging
    line = COMMAND.sub(lambda found: found[0].replace(" ", "\0"), line)  # no line here has a \0
    text = textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return text.replace("\0", " ")


def print_error(text: str) -> None:
    """Print lines on stderr. On a terminal they are broken between words; elsewhere, as in a log, each stays whole."""
    if sys.stderr.isatty():
        size = shutil.get_terminal_size(fallback=os.get_terminal_size(sys.stderr.fileno()))
        text = "\n".join(_broken(line, size.columns or 80, HANGING) for line in text.split("\n"))
    print(text, file=sys.stderr, flush=True)


class Terminated(KeyboardInterrupt):
    """SIGTERM: a command ends by it as by Ctrl-C."""


def _terminate(*_: object) -> None:
    raise Terminated


def exit_code_of(command: Callable[[], int], interrupted: str = GOES_ON) -> int:
    """What a command returns; an error is one line on stderr: 1 a training failed or the disk is full, 2 bad input,
    130 interrupted, 143 terminated. 1 without a message where the reader of stdout has closed it, as `head` does."""
    _make_writable()
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        try:
            return _report_errors(command, interrupted)
        finally:
            signal.signal(signal.SIGTERM, before)
            sys.stdout.flush()
    except OSError as error:
        if error.errno in DISK_FULL:
            where = error.filename or "the output, or of temporary files,"
            print_error(f"proser: the disk of {where} is full; free some space, and run the command again")
        elif not (isinstance(error, BrokenPipeError) and _reader_has_gone()):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more at its end
        return 1


def _make_writable() -> None:
    """Give stdout and stderr that were closed, as by `>&-`, a place to go; write letters that the locale lacks, as of a
    class or a bar, as escapes."""
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:
            setattr(sys, stream, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _report_errors(command: Callable[[], int], interrupted: str) -> int:
    try:
        return command()
    except ProserError as error:
        print_error(f"proser: {hide_secrets(str(error))}")
        return 1 if isinstance(error, TrainingError | StorageError) else 2
    except OSError as error:
        if error.errno not in NOT_ALLOWED or error.filename is None:
            raise
        where = f"{error.filename}: {error.strerror}"
        print_error(f"proser: {where}; need a path that can be read, and written to where results go")
        return 2
    except KeyboardInterrupt as error:
        how, code = ("terminated", 143) if isinstance(error, Terminated) else ("interrupted", 130)
        print_error(f"\nproser: {how}{interrupted}")
        return code


def _reader_has_gone() -> bool:
    """Whether the reader of stdout has closed the pipe."""
    poll = select.poll()
    poll.register(sys.stdout, 0)  # errors are reported without being asked for
    return bool(poll.poll(0))
