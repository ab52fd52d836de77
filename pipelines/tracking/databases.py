"""Whether a tracking database can be opened: MLflow itself tries one that cannot for two minutes, in silence."""

import os
import re
from functools import cache
from pathlib import Path

from pipelines.ports import check_listens
from proser_core.errors import TrackingError, first_line

DATABASES = re.compile(r"(sqlite|postgresql|mysql|mssql)(\+\w+)?:")
USUAL_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}


@cache  # MLflow too opens one once
def check_database(uri: str, shown: str) -> None:
    """Raises TrackingError where `uri` is a database that cannot be opened; `shown` is the same without a password."""
    if not DATABASES.match(uri):
        return
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    advice = "start it, correct MLFLOW_TRACKING_URI, or unset it to track in ./mlflow.db"
    try:
        url = make_url(uri)
        dialect = url.get_backend_name()
        if dialect == "sqlite":
            advice = (
                "give the command in a folder that can be written, or name another file or a server in "
                "MLFLOW_TRACKING_URI"
            )
            if url.database and not Path(url.database).exists():
                _check_can_be_made(Path(url.database))
                return
        elif url.host:
            check_listens(url.host, url.port or USUAL_PORTS[dialect])
        _open_once(uri)
    except (OSError, ImportError, ValueError, SQLAlchemyError) as error:
        raise TrackingError(
            f"the tracking database {shown} cannot be opened ({first_line(error)}); {advice}"
        ) from error


def _check_can_be_made(file: Path) -> None:
    """Raises OSError where MLflow could not make the file, which it does with the folders above it."""
    there = next(folder for folder in file.absolute().parents if folder.exists())
    if not there.is_dir():
        raise NotADirectoryError(f"{there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f"the folder {there} cannot be written")


def _open_once(uri: str) -> None:
    """Raises SQLAlchemyError where nobody is let in, or a file is no database, ImportError where its driver is missing.

    A file that can be read alone will do for commands that write nothing.
    """
    from sqlalchemy import create_engine, inspect

    engine = create_engine(uri)
    try:
        inspect(engine).has_table("experiments")
    finally:
        engine.dispose()
