"""Errors that a user can fix. Each message says what was got, what is needed and what to do."""

import re


class ProserError(Exception):
    """Base of every error whose message is meant for the user; the command line exits with 2."""


class ConfigError(ProserError):
    """A field of the recipe has a value that the method cannot work with."""


class MissingPackageError(ConfigError):
    """A package is not installed that not every network needs."""


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

LONGEST = 200  # characters of an error's message within another one
DRIVER_ERROR = re.compile(r"^(?:\(raised as a result of .*\)\n)?\([a-z]\w*(?:\.\w+)+\) ")
"""What SQLAlchemy says before a database's own words: when the error came, and of what kind it is."""


def hide_secrets(text: str) -> str:
    """Text for people, without the passwords and keys of the URIs in it."""
    return SECRET_FIELD.sub(r"\1***", USER_OF_URI.sub("://", text))


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without secrets, or its kind where it has none; of an error of SQLAlchemy,
    the database's own words. A long line ends at a word."""
    text = hide_secrets(str(error).strip())  # before a cut, which would make one unrecognisable
    line = next(iter(DRIVER_ERROR.sub("", text).splitlines()), type(error).__name__)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 4].rsplit(' ', 1)[0]} ..."


def last_line(error: BaseException) -> str:
    """The last line of an error's message, which is the worker's own where Ray passes one on."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1]
