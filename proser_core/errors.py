"""Errors that a user can fix. Each message says what was got, what is needed and what to do."""

import errno
import os
import re
import select
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable

NOT_ALLOWED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""Errors of the system that a user's path can cause; any other one is a fault of the program."""
GOES_ON = "; the same command goes on from the last finished epoch"


class ProserError(Exception):
    """Base of every error whose message is meant for the user; the command line exits with 2."""


class ConfigError(ProserError):
    """A field of the recipe has a value that the method cannot work with."""


class InUseError(ConfigError):
    """Another run works in the storage."""


class DataError(ProserError):
    """Images or labels are missing, unreadable or not what the recipe asks for."""


class ImageTooLargeError(DataError):
    """An image has more pixels than are decoded."""


class DamagedFileError(DataError):
    """A Parquet file is incomplete or damaged, so that its content is unknown."""


class CheckpointError(ProserError):
    """Weights do not fit the network, or an artefact is incomplete or was changed."""


class CalibrationError(ProserError):
    """The validation scores do not determine a bias."""


class TrainingError(ProserError):
    """Training cannot go on, for example because the loss is not finite."""


class StorageError(ProserError):
    """The storage cannot be written any more: its disk is full."""


class ClusterError(ProserError):
    """The cluster does not answer or cannot give what the plan needs."""


class TrackingError(ProserError):
    """The tracking server does not answer, or the registry is not as expected."""


USER_OF_URI = re.compile(r"://(?:(?<!abfs://)(?<!abfss://)[^\s/@:]+@|[^\s/@:]*:(?!\d+(?:[/?#]|$))\S*@)")
"""Name and password before a host, up to the last @: passwords have slashes and @ too. A port is no password, nor is
what Azure has there, a container."""
SECRET_FIELD = re.compile(
    r"(?i)([?&;](?:sig|[^=&;\s]*(?:password|passwd|pwd|secret|token|key|credential(?!_kind)|signature)[^=&;\s]*)=)[^&;\s)'\"]+"
)

DRIVER_ERROR = re.compile(r"^\([a-z]\w*(?:\.\w+)+\) ")
"""The kind of a database's error, with which SQLAlchemy begins its message."""


def hide_secrets(text: str) -> str:
    """Text for people, without the passwords and keys of the URIs in it."""
    return SECRET_FIELD.sub(r"\1***", USER_OF_URI.sub("://", text))


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without secrets, or its kind where it has none; of an error of SQLAlchemy,
    the database's own words."""
    text = hide_secrets(str(error))  # before a cut, which would make one unrecognisable
    lines = DRIVER_ERROR.sub("", text).splitlines()
    return lines[0][:200] if lines else type(error).__name__


def last_line(error: BaseException) -> str:
    """The last line of an error's message, which is the worker's own where Ray passes one on."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1]


COPIED = re.compile(r"[/\\]|^ *proser ")  # in a line with a path, a URI or a command, which a break would damage
COMMAND = re.compile(r"`[^`]*`")  # in a sentence


def filled(line: str, width: int) -> str:
    """A line for a terminal, broken between words where nothing in it is to be copied."""
    if COPIED.search(line):
        return line
    indent = line[: len(line) - len(line.lstrip(" "))]
    line = COMMAND.sub(lambda found: found[0].replace(" ", "\0"), line)  # which no line has here
    text = textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return text.replace("\0", " ")


def print_error(text: str) -> None:
    """Print lines on stderr; on a terminal as `filled` has them."""
    if sys.stderr.isatty():
        size = shutil.get_terminal_size(fallback=os.get_terminal_size(sys.stderr.fileno()))
        text = "\n".join(filled(line, size.columns or 80) for line in text.split("\n"))
    print(text, file=sys.stderr, flush=True)


class Terminated(KeyboardInterrupt):
    """SIGTERM: a command ends by it as by Ctrl-C."""


def _terminate(*_: object) -> None:
    raise Terminated


def exit_code_of(command: Callable[[], int], interrupted: str = GOES_ON) -> int:
    """What a command returns; an error is one line on stderr: 1 a training failed or the disk is full, 2 bad input,
    130 interrupted, 143 terminated. 1 without a message where the reader of stdout has closed it, as `head` does."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        try:
            return _report_errors(command, interrupted)
        finally:
            signal.signal(signal.SIGTERM, before)
            sys.stdout.flush()
    except BrokenPipeError:
        if not _reader_has_gone():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes once more at its end
        return 1


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
