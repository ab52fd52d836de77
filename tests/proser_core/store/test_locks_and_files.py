"""Locks, and files that are whole or not there, also on a disk that is full."""

import errno
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import pytest

from proser_core.errors import ConfigError, StorageError, TrainingError
from proser_core.exit_codes import exit_code_of
from proser_core.store import lock
from proser_core.store.files import disk_full_errors, remove_partial_files, temporary_path, write_atomically
from proser_core.store.lock import LOCK, absent_folders, exclusive_storage, exclusive_training
from proser_core.store.store import Store

HOLD = """
import sys, time
from pathlib import Path
from typing import TextIO
from proser_core.store.lock import exclusive_training
with exclusive_training(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def full(path: Path) -> None:
    """Let writing a file meet a full disk."""
    path.with_name(f".{path.name}.{os.getpid()}").symlink_to("/dev/full")


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    write_atomically(path, b"old")
    full(path)
    with (
        pytest.raises(
            StorageError, match=rf"the disk of {tmp_path}, or of temporary files .* is full; free some space"
        ),
        disk_full_errors(tmp_path),
    ):
        write_atomically(path, b"new")
    assert [each.name for each in tmp_path.iterdir()] == ["state.pt"]  # before anything is read: /dev/full has no end
    assert path.read_bytes() == b"old"


def test_of_a_copy_the_disk_that_is_written_to_is_the_full_one(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="the disk of there is full"), disk_full_errors(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device", "here", None, "there")  # as of shutil.copyfile


def test_other_errors_of_the_system_are_not_called_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), disk_full_errors(tmp_path):
        (tmp_path / "missing").read_text()


def test_an_error_without_a_number_is_that_of_a_full_disk_where_nothing_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As numpy.save raises it."""
    with pytest.raises(OSError, match="12 requested and 0 written"), disk_full_errors(tmp_path):
        raise OSError("12 requested and 0 written")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    with pytest.raises(StorageError, match=f"the disk of {tmp_path} is full"), disk_full_errors(tmp_path):
        raise OSError("12 requested and 0 written")


def test_two_threads_that_write_a_file_have_a_temporary_one_each(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as other:
        assert other.submit(temporary_path, tmp_path / "state.pt").result() != temporary_path(tmp_path / "state.pt")


def test_halves_of_killed_processes_go_and_other_files_stay(tmp_path: Path) -> None:
    for name in (".state.pt.77", ".epochs.jsonl.1", ".lock", "state.pt", ".hidden.txt"):
        (tmp_path / name).touch()
    remove_partial_files(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "state.pt", ".hidden.txt"}


def test_a_full_disk_ends_a_command_with_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> int:
        with exclusive_storage(tmp_path, "a sweep"):
            full(tmp_path / "table.json")
            write_atomically(tmp_path / "table.json", b"{}")
        return 0

    assert exit_code_of(command) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"proser: the disk of {tmp_path}, or of temporary files")
    assert error.count("\n") == 1


def test_a_full_disk_lets_a_command_in_that_may_free_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(descriptor: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", no_space)
    with exclusive_storage(tmp_path, "proser clean"), pytest.raises(ConfigError, match="does not name itself"):
        exclusive_storage(tmp_path, "another").__enter__()


def test_a_second_run_is_told_who_works_there_and_is_let_in_afterwards(tmp_path: Path) -> None:
    said = rf"proser sweep digits ablation, process {os.getpid()} on .*, since"
    with exclusive_storage(tmp_path, "proser sweep digits ablation"), pytest.raises(ConfigError, match=said):
        exclusive_storage(tmp_path, "another").__enter__()
    assert (tmp_path / LOCK).read_text() == "", "nobody works there any more"
    with exclusive_storage(tmp_path, "another"):
        pass


def test_a_new_storage_in_which_nothing_was_left_goes_with_the_folders_made_for_it(tmp_path: Path) -> None:
    made = absent_folders(tmp_path / "new" / "storage")
    store = Store(tmp_path / "new" / "storage")
    with pytest.raises(ConfigError), exclusive_storage(store.root, "a run", made):
        raise ConfigError("refused")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("was_there", [True, False])
def test_a_storage_stays_that_was_there_or_holds_work(tmp_path: Path, was_there: bool) -> None:
    root = tmp_path / "storage"
    if was_there:
        root.mkdir()
    made, store = absent_folders(root), Store(root)
    with exclusive_storage(store.root, "a run", made):
        if not was_there:
            (root / "prepare").mkdir()
    assert root.is_dir()


def test_a_lock_that_the_run_before_deleted_just_now_lets_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = lock._take

    def take_as_it_is_deleted(file: TextIO) -> bool:
        (tmp_path / LOCK).unlink()
        return take(file)

    monkeypatch.setattr(lock, "_take", take_as_it_is_deleted)
    with pytest.raises(ConfigError, match="another run works in"):
        exclusive_storage(tmp_path, "a run").__enter__()


def test_a_training_waits_for_a_process_of_an_earlier_attempt_and_its_death_lets_it_in(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    entered = threading.Event()

    def train() -> None:
        with exclusive_training(tmp_path):
            entered.set()

    waiting = threading.Thread(target=train)
    waiting.start()
    assert not entered.wait(0.5)
    holder.kill()
    holder.wait()
    waiting.join(timeout=30)
    assert entered.is_set()


def test_a_training_gives_up_with_the_name_of_a_process_that_does_not_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proser_core.store.lock.WAIT", 0.1)
    said = f"another process trains in {tmp_path}: process {os.getpid()} on"
    with exclusive_training(tmp_path), pytest.raises(TrainingError, match=said):
        exclusive_training(tmp_path).__enter__()
    assert (tmp_path / LOCK).read_text() == ""
