"""MLflow's SQLite database, created and upgraded in one transaction.

MLflow itself migrates in about seventy steps, each committed alone: a process that is stopped between two leaves a
database that no later one can open. Here MLflow migrates a scratch copy, and SQLite writes it back as a whole. The
lock is SQLite's own, which other programs respect and which the system releases however its holder ends.
"""

import re
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from proser_core.errors import TrackingError, first_line

if TYPE_CHECKING:
    from sqlalchemy import Engine

URI = re.compile(r"sqlite(\+\w+)?:///(?!:memory:|file:)(?P<file>[^?]+)")
LOCK_TIMEOUT_S, RETRY_S = 120.0, 0.1
SEEDED = ("alembic_version", "workspaces")  # tables that the migrations fill


def sqlite_file(uri: str) -> Path | None:
    """Absolute path of a SQLite database; None for a server or a database in memory."""
    found = URI.match(uri)
    return Path(found["file"]).absolute() if found else None


def migrate(file: Path) -> None:
    """Create the database, or upgrade it to the schema of the installed MLflow; wait for another process that does.

    A database that cannot be upgraded is replaced where it holds nothing, and copied to another name first. Raises
    TrackingError where it holds runs, where a newer MLflow wrote it, and where it stays locked; OSError and
    sqlite3.Error where the file cannot be opened.
    """
    try:
        from mlflow.store.db.utils import _get_latest_schema_revision  # private; read in MLflow 3.17.2
    except ImportError as error:
        _say(f"this MLflow creates {file} in steps ({error}); do not interrupt the first command")
        return
    newest = _get_latest_schema_revision()
    if file.parent.is_file():
        raise NotADirectoryError(f"{file.parent} is not a folder")
    file.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    waiting = False
    while True:
        try:
            with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as database:
                if _revision(database) != newest:
                    _lock(database)
                    _replace(database, file, newest)
                return
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY"):
                raise
        if time.monotonic() > began + LOCK_TIMEOUT_S:
            raise TrackingError(
                f"another process has locked {file} for {LOCK_TIMEOUT_S:.0f} s; `lsof {file}` names it: end it, or wait"
            )
        if not waiting:
            _say(f"another process has locked {file}; waiting for it")
        waiting = True
        time.sleep(RETRY_S)


def _lock(database: sqlite3.Connection) -> None:
    """Lock the database until it is closed. Raises sqlite3.OperationalError where another process has it."""
    database.execute("PRAGMA locking_mode = EXCLUSIVE")
    database.execute("BEGIN EXCLUSIVE")
    database.execute("COMMIT")  # a backup needs a connection without a transaction; the mode keeps the lock


def _replace(database: sqlite3.Connection, file: Path, newest: str) -> None:
    """Write the migrated schema and all rows to a locked database, in one transaction."""
    if _revision(database) == newest:  # by another process, before this one had the lock
        return
    from alembic.util import CommandError
    from mlflow import __version__
    from sqlalchemy.exc import SQLAlchemyError

    empty = not _tables(database)
    if not empty:
        _say(f"upgrading {file} to the schema of MLflow {__version__}")
    try:
        with closing(_scratch()) as migrated:
            database.backup(migrated)
            _run_migrations(migrated)
            migrated.backup(database)
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
                f"unchanged. Restore a backup, or rename it (mv {file} {file}.old) and give the same commands again: "
                "they log what the storage holds to a new one"
            ) from error
        kept = file.with_name(f"{file.name}.{time.strftime('%Y%m%d-%H%M%S')}")
        _say(f"the creation of {file} was interrupted before it held a run; creating it again, the old one is {kept}")
        with closing(sqlite3.connect(kept)) as copy, closing(_scratch()) as created:
            database.backup(copy)
            _run_migrations(created)
            created.backup(database)


def _raise_interrupt(error: BaseException) -> None:
    """Raise the Ctrl-C that an error of alembic's cleaning up hides."""
    behind = error.__context__
    if isinstance(behind, KeyboardInterrupt):
        raise behind
    if behind is not None:
        _raise_interrupt(behind)


def _scratch() -> sqlite3.Connection:
    """An empty database that SQLite deletes when it is closed, however that comes about."""
    return sqlite3.connect("")


def _run_migrations(database: sqlite3.Connection) -> None:
    """MLflow's own migrations, three times as fast without a file that is flushed at each step."""
    from mlflow.store.db.utils import _initialize_tables, _upgrade_db  # private; read in MLflow 3.17.2
    from sqlalchemy import StaticPool, create_engine

    engine: Engine = create_engine("sqlite://", creator=lambda: database, poolclass=StaticPool)
    (_initialize_tables if _revision(database) is None else _upgrade_db)(engine)


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


def _say(text: str) -> None:
    print(f"proser: {text}", file=sys.stderr, flush=True)
