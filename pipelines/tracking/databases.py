"""The database behind MLflow: reached in a server, created and upgraded in a SQLite file.

MLflow itself tries a server that cannot be reached for two minutes, in silence. It migrates a file in about seventy
steps, each committed alone: a process that is stopped between two leaves a database that no later one can open. Here
MLflow migrates a scratch copy, and SQLite writes it back as a whole. The lock is SQLite's own, which other programs
respect and which the system releases however its holder ends.
"""

import re
import sqlite3
import time
from contextlib import closing
from functools import cache
from pathlib import Path

from alembic.util import CommandError
from mlflow import __version__
from mlflow.store.db import utils
from sqlalchemy import StaticPool, create_engine, inspect
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from pipelines.console import warn
from pipelines.ports import check_listens
from proser_core.errors import TrackingError, first_line

DATABASES = re.compile(r"(sqlite|postgresql|mysql|mssql)(\+\w+)?:")
USUAL_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
IN_FILE = "run the command in a folder that can be written, or name another file or a server in MLFLOW_TRACKING_URI"
IN_SERVER = "start it, correct MLFLOW_TRACKING_URI, or unset it to track in ./mlflow.db"
LOCK_TIMEOUT_S, RETRY_S = 120.0, 0.1
SAID_AT = 10  # tries: a command that commits holds the lock for milliseconds
PRIVATE = ("_get_latest_schema_revision", "_initialize_tables", "_upgrade_db")
"""Undocumented functions of MLflow that are called here, as they are in 3.17.2."""
SEEDED = ("alembic_version", "workspaces")  # tables that the migrations fill


@cache  # MLflow too opens one once
def open_database(uri: str, shown: str, file: Path | None) -> None:
    """Create or upgrade a database in a file, and reach one in a server; `shown` is the URI without a password. Raises
    TrackingError where that cannot be done."""
    if not DATABASES.match(uri):
        return
    try:
        if file is None:
            _open_once(uri)
        else:
            migrate(file)
    except (OSError, ImportError, ValueError, SQLAlchemyError, sqlite3.Error) as error:
        raise TrackingError(
            f"the tracking database {shown} cannot be opened ({first_line(error)}); {IN_FILE if file else IN_SERVER}"
        ) from error


def check_writable(file: Path) -> None:
    """Raises TrackingError for a database that cannot be written, or in whose folder SQLite can make no journal."""
    try:
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            (version,) = database.execute("PRAGMA user_version").fetchone()
            database.execute(f"PRAGMA user_version = {version}")
            database.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname.startswith("SQLITE_BUSY"):  # another process writes it
            return
        raise TrackingError(
            f"{file} cannot be written ({error}); make it and its folder writable, or name another file or a server in "
            "MLFLOW_TRACKING_URI"
        ) from error


def _open_once(uri: str) -> None:
    """Raises OSError where nothing listens, SQLAlchemyError where access is refused, ImportError without a driver."""
    url = make_url(uri)
    if url.host:
        check_listens(url.host, url.port or USUAL_PORTS[url.get_backend_name()])
    engine = create_engine(uri)
    try:
        inspect(engine).has_table("experiments")
    finally:
        engine.dispose()


def migrate(file: Path) -> None:
    """Create the database, or upgrade it to the schema of the installed MLflow; wait for another process that does.

    A database that cannot be upgraded is replaced where it holds nothing, and copied to another name first. Raises
    TrackingError where it holds runs, where a newer MLflow wrote it, and where it stays locked; OSError and
    sqlite3.Error where the file cannot be opened.
    """
    missing = [name for name in PRIVATE if not hasattr(utils, name)]
    if missing:
        warn(f"MLflow {__version__} has no {', '.join(missing)}: do not interrupt the first command with a new {file}")
        return
    if file.parent.is_file():
        raise NotADirectoryError(f"{file.parent} is not a folder")
    file.parent.mkdir(parents=True, exist_ok=True)
    deadline, tries = time.monotonic() + LOCK_TIMEOUT_S, 0
    while not _migrate_unless_locked(file):
        if time.monotonic() > deadline:
            raise TrackingError(
                f"another process has locked {file} for {LOCK_TIMEOUT_S:.0f} s; `lsof {file}` names it: end it, or wait"
            )
        tries += 1
        if tries == SAID_AT:
            warn(f"another process has locked {file}; waiting for it")
        time.sleep(RETRY_S)


def _migrate_unless_locked(file: Path) -> bool:
    """Whether the database has the newest schema now; False where another process has locked it."""
    newest = utils._get_latest_schema_revision()
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as database:
        try:
            if _revision(database) == newest:
                return True
            database.execute("PRAGMA locking_mode = EXCLUSIVE")  # until it is closed
            database.execute("BEGIN EXCLUSIVE")
            database.execute("COMMIT")  # the lock stays; a backup needs a connection without a transaction
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise
            return False
        if _revision(database) != newest:  # where no other process came first
            _upgrade(database, file)
    return True


def _upgrade(database: sqlite3.Connection, file: Path) -> None:
    """Bring a locked database to the newest schema, with all its rows."""
    empty = not _tables(database)
    try:
        _write_migrated(database, database)
    except CommandError as error:
        raise TrackingError(
            f"{file} was written by a newer MLflow than {__version__} ({first_line(error)}); update MLflow, or name "
            "another file in MLFLOW_TRACKING_URI"
        ) from error
    except SQLAlchemyError as error:
        _raise_interrupt(error)
        if empty:
            raise
        if _has_rows(database):
            raise TrackingError(
                f"{file} holds runs, and MLflow {__version__} cannot upgrade it ({first_line(error)}); it is "
                f"unchanged. Restore a backup, or rename it (mv {file} {file}.old) and run the same commands again: "
                "they log what the storage holds to a new one"
            ) from error
        _create_again(database, file)
    else:
        if not empty:
            warn(f"upgraded {file} to the schema of MLflow {__version__}, which an older MLflow cannot open")


def _create_again(database: sqlite3.Connection, file: Path) -> None:
    """Replace a locked database that holds nothing, and keep it under another name."""
    kept = file.with_name(f"{file.name}.{time.strftime('%Y%m%d-%H%M%S')}")
    warn(f"the creation of {file} was interrupted before it held a run; creating it again, the old one is {kept}")
    with closing(sqlite3.connect(kept)) as copy, closing(sqlite3.connect("")) as nothing:
        database.backup(copy)
        _write_migrated(nothing, database)


def _write_migrated(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """Migrate a copy, and write it to the target in one transaction.

    The copy is a scratch database of SQLite's, which is deleted however this process ends. MLflow's migrations take a
    third of the time there, because no step is flushed to the disk.
    """
    with closing(sqlite3.connect("")) as scratch:
        source.backup(scratch)
        engine = create_engine("sqlite://", creator=lambda: scratch, poolclass=StaticPool)
        (utils._initialize_tables if _revision(scratch) is None else utils._upgrade_db)(engine)
        scratch.backup(target)


def _raise_interrupt(error: BaseException) -> None:
    """Raise the Ctrl-C that an error of alembic's cleaning up hides."""
    behind = error.__context__
    if isinstance(behind, KeyboardInterrupt):
        raise behind
    if behind is not None:
        _raise_interrupt(behind)


def _revision(database: sqlite3.Connection) -> str | None:
    """Revision of MLflow's schema; None where no migration has been committed."""
    if "alembic_version" not in _tables(database):
        return None
    row = database.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row[0])


def _tables(database: sqlite3.Connection) -> list[str]:
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return [name for (name,) in names]


def _has_rows(database: sqlite3.Connection) -> bool:
    """Whether somebody has written to the database, apart from the migrations."""
    names = (name for name in _tables(database) if name not in SEEDED)
    return any(database.execute(f'SELECT 1 FROM "{name}" LIMIT 1').fetchone() for name in names)
