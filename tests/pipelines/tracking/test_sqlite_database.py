"""A first command that is stopped, several at once, and databases that an interrupted MLflow or another one wrote."""

import logging
import multiprocessing
import os
import signal
import sqlite3
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from mlflow import MlflowClient
from mlflow.store.db import utils
from mlflow.store.tracking.dbmodels.initial_models import Base
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import OperationalError
from waiting import until

from pipelines.tracking import databases
from pipelines.tracking.databases import migrate, open_database
from pipelines.tracking.server import EXPERIMENT, connect, experiment_id, sqlite_file, tracking_uri
from proser_core.errors import TrackingError, first_line

logging.getLogger("alembic").setLevel(logging.ERROR)
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__, "mlflow.store.tracking.sqlalchemy_store", "mlflow.pyfunc"])
MIDDLE = 800  # of MLflow's 1668 statements
OLDER = "acf3f17fdcc7"  # revision of MLflow 2.8


def first_command(folder: Path, stop_at: int, here: Connection) -> None:
    """Connect as every command does, in a process of its own; wait at a statement of MLflow's migrations."""
    count = 0

    def wait(*_: Any) -> None:
        nonlocal count
        count += 1
        if count == stop_at:
            here.send("reached")
            here.recv()

    signal.signal(signal.SIGINT, signal.default_int_handler)  # which the fork server ignores
    os.chdir(folder)
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    with (folder / f"{os.getpid()}.stderr").open("w") as errors:
        os.dup2(errors.fileno(), 2)
    event.listen(Engine, "before_cursor_execute", wait)
    here.send(experiment_id(connect(creates=True)))


def start(folder: Path, stop_at: int = 0) -> tuple[Any, Connection]:
    there, here = PROCESSES.Pipe()
    process = PROCESSES.Process(target=first_command, args=(folder, stop_at, here), daemon=True)
    process.start()
    here.close()
    return process, there


def what_a_command_gets(folder: Path) -> str:
    process, there = start(folder)
    found = there.recv()
    process.join()
    return str(found)


def said(folder: Path, process: Any) -> str:
    file = folder / f"{process.pid}.stderr"
    return file.read_text() if file.exists() else ""


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".stderr")


def cut_off(file: Path) -> None:
    """A database whose creation by MLflow ended between a table and the mark that the table is there."""

    def stop(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.strip().startswith("CREATE TABLE spans"):
            raise SystemExit

    engine = create_engine(f"sqlite:///{file}")
    event.listen(engine, "connect", lambda database, _: database.execute("PRAGMA synchronous = OFF"))
    event.listen(engine, "after_cursor_execute", stop)
    with pytest.raises(SystemExit):
        utils._initialize_tables(engine)
    engine.dispose()


def insert_experiment(file: Path) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("INSERT INTO experiments (name, lifecycle_stage) VALUES ('mine', 'active')")


def content(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as database:
        return list(database.iterdump())


@pytest.mark.parametrize(
    ("number", "stop_at"),
    [(signal.SIGKILL, MIDDLE), pytest.param(signal.SIGKILL, 1600, marks=pytest.mark.slow), (signal.SIGINT, MIDDLE)],
)
def test_a_first_command_that_is_stopped_leaves_a_folder_in_which_the_next_one_works(
    number: int, stop_at: int, tmp_path: Path
) -> None:
    process, there = start(tmp_path, stop_at)
    assert there.recv() == "reached"
    os.kill(process.pid, number)
    process.join()
    assert process.exitcode != 0
    assert what_a_command_gets(tmp_path) == "1"
    assert files(tmp_path) == ["mlflow.db"]


def test_a_kill_while_the_database_is_written_leaves_it_as_it_was_or_whole(tmp_path: Path) -> None:
    process, _ = start(tmp_path)
    file = tmp_path / "mlflow.db"
    until(lambda: file.exists() and file.stat().st_size, pause_s=0)
    process.kill()
    process.join()
    assert what_a_command_gets(tmp_path) == "1"
    assert files(tmp_path) == ["mlflow.db"]


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_first_commands_at_once_wait_for_one_of_them_and_all_go_on(count: int, tmp_path: Path) -> None:
    first, there = start(tmp_path, MIDDLE)
    assert there.recv() == "reached"
    others = [start(tmp_path) for _ in range(count - 1)]
    for other, _ in others:
        until(lambda other=other: "waiting for it" in said(tmp_path, other))
    there.send("go on")
    assert {end.recv() for end in (there, *(end for _, end in others))} == {"1"}
    for process in (first, *(other for other, _ in others)):
        process.join()
        assert process.exitcode == 0
    assert files(tmp_path) == ["mlflow.db"]


def test_a_database_that_was_cut_off_before_it_held_a_run_is_made_anew_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mlflow.db"
    cut_off(file)
    before = content(file)
    with pytest.raises(OperationalError, match="table spans already exists"):
        MlflowClient(f"sqlite:///{file}").search_experiments()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert experiment_id(connect(creates=True)) == "1"
    (kept,) = tmp_path.glob("mlflow.db.*")
    assert content(kept) == before
    assert f"the old one is {kept}" in capsys.readouterr().err


def test_a_cut_off_database_that_holds_something_is_left_as_it_is_with_what_can_be_done(tmp_path: Path) -> None:
    file = tmp_path / "mlflow.db"
    cut_off(file)
    insert_experiment(file)
    before = file.read_bytes()
    with pytest.raises(TrackingError, match=r"holds runs, .*spans already exists.* unchanged\. .*mv .*mlflow\.db\.old"):
        migrate(file)
    assert file.read_bytes() == before
    assert files(tmp_path) == ["mlflow.db"]


def test_a_database_of_an_older_mlflow_is_upgraded_with_all_that_it_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mlflow.db"
    engine = create_engine(f"sqlite:///{file}")
    Base.metadata.create_all(engine)
    config = utils._get_alembic_config(str(engine.url))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, OLDER)
    engine.dispose()
    insert_experiment(file)
    migrate(file)
    assert {each.name for each in MlflowClient(f"sqlite:///{file}").search_experiments()} == {"mine", "Default"}
    assert f"upgraded {file}" in capsys.readouterr().err


def test_a_database_of_a_newer_mlflow_is_refused_and_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE alembic_version (version_num)")
        database.execute("INSERT INTO alembic_version VALUES ('of_2030')")
    before = file.read_bytes()
    with pytest.raises(TrackingError, match=r"newer MLflow than .*of_2030.*; update MLflow"):
        migrate(file)
    assert file.read_bytes() == before
    assert "upgrad" not in capsys.readouterr().err


def test_a_database_that_another_program_has_locked_is_waited_for_and_then_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "LOCK_TIMEOUT_S", 0)
    file = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(file)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(TrackingError, match=f"another process has locked .*; `lsof {file}` names it"):
            migrate(file)


@pytest.mark.parametrize(
    ("folder", "reason"), [("/proc", "unable to open database file"), ("file", "/file is not a folder")]
)
def test_a_place_where_no_file_can_be_is_named_at_once_for_root_too(
    folder: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
    expected = rf"{folder}/mlflow.db cannot be opened \(.*{reason}\); .* folder that can be written"
    with pytest.raises(TrackingError, match=expected) as said:
        connect(creates=True)
    assert "\n" not in str(said.value)


def test_a_database_that_cannot_be_written_is_refused_before_the_work_and_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the mode of SQLite's connections: root may write whatever the permissions say."""
    file, open_file = tmp_path / "mlflow.db", sqlite3.connect
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{file}")
    experiment = experiment_id(connect(creates=True))
    before = file.read_bytes()
    connect(creates=True, writes=True)
    assert (file.read_bytes(), files(tmp_path)) == (before, ["mlflow.db"])

    def read_only(path: Path, **options: Any) -> sqlite3.Connection:
        return open_file(f"file:{path}?mode=ro", uri=True, **options)

    monkeypatch.setattr(sqlite3, "connect", read_only)
    reason = rf"{file} cannot be written \(attempt to write a readonly database\); make it and its folder writable"
    for options in ({"creates": True}, {"writes": True}):
        with pytest.raises(TrackingError, match=reason):
            connect(**options)
    assert connect().get_experiment(experiment).name == EXPERIMENT


def test_an_error_of_the_database_is_told_without_the_words_around_it() -> None:
    error = OperationalError("SELECT 1", None, sqlite3.OperationalError("database is locked"))
    assert first_line(error) == "database is locked"


def test_a_command_that_only_reads_makes_no_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    with pytest.raises(TrackingError, match=f"there is no tracking database {tmp_path}/mlflow.db"):
        connect()
    assert list(tmp_path.iterdir()) == []


def test_an_mlflow_without_the_function_that_is_needed_creates_its_database_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(utils, "_get_latest_schema_revision")
    migrate(tmp_path / "mlflow.db")
    assert files(tmp_path) == []
    assert "do not interrupt the first command" in capsys.readouterr().err


@pytest.mark.parametrize("given", ["sqlite:///runs/mlflow.db", "sqlite+pysqlite:///runs/mlflow.db?timeout=9"])
def test_a_relative_path_of_a_database_holds_in_another_working_directory(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", given)
    uri = tracking_uri()
    assert uri == given.replace("runs", f"{tmp_path}/runs")
    monkeypatch.chdir("/")
    open_database(uri, uri, sqlite_file(uri))
    assert (tmp_path / "runs" / "mlflow.db").is_file()
