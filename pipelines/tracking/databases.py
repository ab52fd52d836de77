"""Whether a tracking database can be opened: MLflow itself tries one that cannot for two minutes, in silence."""

import re
import sqlite3
from functools import cache
from pathlib import Path

from pipelines.ports import check_listens
from proser_core.errors import TrackingError, first_line

DATABASES = re.compile(r"(sqlite|postgresql|mysql|mssql)(\+\w+)?:")
IN_A_FILE = re.compile(r"sqlite(\+\w+)?:///(?!:memory:|file:)(?P<file>[^?]+)")
USUAL_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
IN_FILE = "give the command in a folder that can be written, or name another file or a server in MLFLOW_TRACKING_URI"
IN_SERVER = "start it, correct MLFLOW_TRACKING_URI, or unset it to track in ./mlflow.db"


def sqlite_file(uri: str) -> Path | None:
    """Absolute path of a SQLite database; None for a server or a database in memory."""
    found = IN_A_FILE.match(uri)
    return Path(found["file"]).absolute() if found else None


@cache  # MLflow too opens one once
def open_database(uri: str, shown: str) -> None:
    """Create or upgrade a database in a file, and reach one in a server; `shown` is the URI without a password.

    Raises TrackingError where that cannot be done.
    """
    if not DATABASES.match(uri):
        return
    from sqlalchemy.exc import SQLAlchemyError  # here, as MLflow, because --help and list do without

    from pipelines.tracking.sqlite_database import migrate

    file = sqlite_file(uri)
    try:
        if file is None:
            _open_once(uri)
        else:
            migrate(file)
    except (OSError, ImportError, ValueError, SQLAlchemyError, sqlite3.Error) as error:
        raise TrackingError(
            f"the tracking database {shown} cannot be opened ({first_line(error)}); {IN_FILE if file else IN_SERVER}"
        ) from error


def _open_once(uri: str) -> None:
    """Raises OSError where nobody listens, SQLAlchemyError where nobody is let in, ImportError without a driver."""
    from sqlalchemy import create_engine, inspect
    from sqlalchemy.engine import make_url

    url = make_url(uri)
    if url.host:
        check_listens(url.host, url.port or USUAL_PORTS[url.get_backend_name()])
    engine = create_engine(uri)
    try:
        inspect(engine).has_table("experiments")
    finally:
        engine.dispose()
