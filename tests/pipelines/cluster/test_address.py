"""Joining a cluster that `ray start` made: who is let in, and what is said to whoever is not."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ray_nodes import Head, head_node, node
from small_disks import with_disk_at

from pipelines.cluster import session
from pipelines.cluster.address import check_job, check_storage_visible, resolve_address
from pipelines.ports import free_ports
from pipelines.storage.storage import Storage
from proser_core.errors import ClusterError

JOIN = """
import sys
from pathlib import Path
from pipelines.cluster.cluster import Cluster
from pipelines.storage.storage import Storage
from proser_core.config import ClusterConfig
from proser_core.exit_codes import exit_code_of

def join():
    resources = Cluster(ClusterConfig(address=sys.argv[1]), Storage(Path(sys.argv[2]))).connect()
    print("CPUs:", resources["CPU"])
    return 0

sys.exit(exit_code_of(join))
"""
TERMINATED = """
import os, signal, sys, threading, time
from pipelines.cluster import session
from pipelines.commands.signals import terminated_by_signals
from proser_core.exit_codes import exit_code_of

def command():
    with terminated_by_signals():
        ours = signal.getsignal(signal.SIGTERM)
        def terminate():
            while signal.getsignal(signal.SIGTERM) == ours:
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGTERM)
        threading.Thread(target=terminate, daemon=True).start()
        session.join("")
    return 0

sys.exit(exit_code_of(command))
"""
PROJECT = str(Path(__file__).parents[3])


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    with head_node(PYTHONPATH=PROJECT) as head:
        yield head


def join(head: Head, storage: Path, address: str = "", **changes: str | None) -> subprocess.CompletedProcess[str]:
    """Join from a process of its own, in the head's environment but for `changes`; None takes a variable away."""
    environment = {**head.environment, **{name: value or "" for name, value in changes.items()}}
    for name in (name for name, value in changes.items() if value is None):
        environment.pop(name, None)
    command = [sys.executable, "-c", JOIN, address or head.address, str(storage)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150)


def the_line(done: subprocess.CompletedProcess[str]) -> str:
    """The one line of an error."""
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.slow
@pytest.mark.parametrize("address", ["", "auto"], ids=["the head's", "auto"])
def test_a_process_with_the_token_joins_the_cluster_that_was_started_on_this_machine(
    head: Head, tmp_path: Path, address: str
) -> None:
    assert join(head, tmp_path, address).stdout == "CPUs: 1.0\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_token_that_lies_in_its_file_is_sent_without_being_asked_for(head: Head, tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(head.environment["RAY_AUTH_TOKEN"])
    done = join(head, tmp_path, HOME=str(tmp_path), RAY_AUTH_MODE=None, RAY_AUTH_TOKEN=None)
    assert done.stdout == "CPUs: 1.0\n", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"RAY_AUTH_TOKEN": "0" * 32}, "this machine has a different token"),
        ({"RAY_AUTH_TOKEN": None}, "this machine has no token"),
        ({"RAY_AUTH_MODE": "disabled"}, "RAY_AUTH_MODE is disabled"),
    ],
)
def test_a_process_without_the_token_is_refused_in_one_line(
    changes: dict[str, str | None], reason: str, head: Head, tmp_path: Path
) -> None:
    line = the_line(join(head, tmp_path, HOME=str(tmp_path), **changes))
    assert line.startswith(f"proser: the Ray cluster at {head.address} refuses this process: {reason}")
    assert "RAY_AUTH_MODE=token" in line


@pytest.mark.slow
def test_a_storage_that_one_machine_does_not_see_is_refused(head: Head, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    storage.mkdir()
    hidden = with_disk_at(storage, "1m")
    with node([f"--address={head.address}", "--num-cpus=2"], head.environment, head.folder / "second.log", hidden):
        assert f"the storage {storage} is not visible on" in the_line(join(head, storage))
        assert join(head, tmp_path).stdout == "CPUs: 3.0\n"


def test_a_machine_that_has_not_looked_at_the_storage_in_time_is_named_and_does_not_lack_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.join("")
    check_storage_visible(Storage(tmp_path))
    monkeypatch.setattr("pipelines.cluster.address.STORAGE_CHECK_TIMEOUT_S", 0.0)
    with pytest.raises(ClusterError, match=r"is not visible on \d+\.\d+\.\d+\.\d+ \(no answer within 0 s\); give a"):
        check_storage_visible(Storage(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_auto_without_a_cluster_on_this_machine_says_how_to_start_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with pytest.raises(ClusterError, match=r"no Ray cluster was started on this machine.*ray start --head"):
        resolve_address("auto")


@pytest.mark.parametrize("named", ["10.0.0.1:6379", "auto", ""])
def test_auto_is_ray_address_before_what_lies_on_this_machine(
    named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("10.0.0.2:6379")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.setenv("RAY_ADDRESS", named)
    assert resolve_address("auto") == (named if named.startswith("10.") else "10.0.0.2:6379")
    assert resolve_address("10.0.0.3:6379") == "10.0.0.3:6379"


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("localhost", r"is localhost; need host:port of `ray start`"),
        ("http://127.0.0.1:8265", r"is http://127\.0\.0\.1:8265; need host:port of `ray start`"),
        ("ray://head:10001", r"is ray://head:10001, and through Ray Client no work can be watched; run the command on"),
    ],
)
def test_an_address_of_another_form_is_refused_and_its_source_named(
    address: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ClusterError, match=rf"^--address {reason}"):
        resolve_address(address, "--address")
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ClusterError, match=rf"^RAY_ADDRESS {reason}"):
        resolve_address("auto", "--address")


def test_where_auto_does_not_answer_what_it_meant_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (dead,) = free_ports(1)
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{dead}")
    with pytest.raises(ClusterError, match=rf"no Ray cluster answers at 127\.0\.0\.1:{dead}, from RAY_ADDRESS \("):
        session.join("auto")
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{dead}")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS")
    with pytest.raises(ClusterError, match=rf"at 127\.0\.0\.1:{dead}, from the last `ray start` on this machine \("):
        session.join("auto")


@pytest.mark.parametrize(
    ("variable", "folder", "advice"),
    [
        ("RAY_TMPDIR", "long" * 30, "set RAY_TMPDIR to a folder with a short path in ASCII"),
        ("RAY_TMPDIR", "ü", "set RAY_TMPDIR to a folder with a short path in ASCII"),
        ("HOME", "file/home", "set HOME and RAY_TMPDIR to folders that can be written"),
    ],
)
def test_where_ray_cannot_keep_its_files_the_variable_that_moves_them_is_named(
    variable: str, folder: str, advice: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    command = [sys.executable, "-c", "from pipelines.cluster import session; session.join('')"]
    environment[variable] = str(tmp_path / folder)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150)
    assert advice in done.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "folder"), [("TMPDIR", ""), ("TMPDIR", "/proc/no/folder"), ("TEMP", f"/dev/shm/{'long' * 30}")]
)
def test_ray_starts_where_tmpdir_is_no_folder_that_can_be_written_and_where_temp_is_too_long(
    variable: str, folder: str
) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("RAY_TMPDIR", "TMPDIR")}
    environment[variable] = folder
    command = [sys.executable, "-c", "from pipelines.cluster import session; session.join('')"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of a job, as Ray unpacks it."""
    folder = tmp_path / "session" / "runtime_resources" / "working_dir_files" / "_ray_pkg_1"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    return folder


def test_a_job_with_a_shared_storage_and_a_tracking_server_is_as_it_should_be(unpacked: Path, tmp_path: Path) -> None:
    check_job("auto", tmp_path / "storage")


@pytest.mark.parametrize(
    ("address", "storage", "tracking", "reason"),
    [
        ("", "/shared/storage", "http://server", r"give --cluster\.address auto"),  # it would start a Ray of its own
        ("auto", "storage", "http://server", "give an absolute path that all machines see"),  # Ray would delete it
        ("auto", "/shared/storage", "", "name a tracking server in MLFLOW_TRACKING_URI"),  # and the database too
    ],
)
def test_a_job_whose_work_would_be_lost_is_refused(
    unpacked: Path, address: str, storage: str, tracking: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracking)
    with pytest.raises(ClusterError, match=reason):
        check_job(address, Path(storage).absolute())


@pytest.mark.slow
def test_a_process_that_is_terminated_while_ray_starts_says_so() -> None:
    """Ray has a handler of its own by then, which exits."""
    done = subprocess.run([sys.executable, "-c", TERMINATED], capture_output=True, text=True, timeout=150)
    assert done.returncode == 143
    assert done.stderr.splitlines()[-1] == "proser: terminated; the same command continues from the last finished epoch"
