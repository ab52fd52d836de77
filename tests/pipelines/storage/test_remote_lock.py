"""The lock of a storage behind a URI: one run at a time, from whichever machine."""

import json
import re
import shutil
import socket
import time
from typing import Any

import pytest
from storages import Machines

import pipelines.storage.lease
from pipelines.storage.lease import LOCK as REMOTE_LOCK
from pipelines.storage.lease import hold_lease
from pipelines.storage.objects import Objects
from pipelines.storage.opening import open_storage
from proser_core.errors import ConfigError, StorageError


class TestTheLock:
    @pytest.fixture(autouse=True)
    def quick(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pipelines.storage.lease, "SETTLE_S", 0.05)

    def hold(self, machines: Machines, mirror: str, work: str = "proser run digits") -> Any:
        return hold_lease(machines.objects, mirror, work, lambda text: None)

    def opened(self, machines: Machines) -> Any:
        return open_storage(machines.uri, "proser run digits", print)

    def test_tells_a_second_run_who_is_first_and_is_given_back(self, machines: Machines) -> None:
        with (
            self.hold(machines, "first"),
            pytest.raises(ConfigError, match=r"another run works in .*: proser run digits, process \d+ on .*, since"),
            self.hold(machines, "second"),
        ):
            pass
        assert machines.objects.read(REMOTE_LOCK) is None
        with self.hold(machines, "second"):
            pass

    def test_of_a_storage_that_went_away_hides_no_error_of_the_work(
        self, machines: Machines, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(objects: Objects, name: str) -> bytes:
            raise OSError("AWS Error UNKNOWN (HTTP status 503)")

        def work() -> None:
            with self.hold(machines, "first"):
                monkeypatch.setattr(Objects, "read", away)
                raise StorageError("the storage does not answer")

        with pytest.raises(StorageError, match="does not answer"):
            work()

    def test_of_a_storage_that_goes_away_before_it_is_taken_is_an_error_that_says_so(
        self, machines: Machines, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(objects: Objects, name: str, content: bytes) -> None:
            raise OSError("AWS Error UNKNOWN (HTTP status 503)")

        lock = self.hold(machines, "first")
        monkeypatch.setattr(Objects, "write", away)
        with pytest.raises(StorageError, match="does not answer"), lock:
            pass

    def test_of_a_run_that_was_killed_on_this_machine_is_taken_over_at_once(self, machines: Machines) -> None:
        machines.objects.write(REMOTE_LOCK, json.dumps({"token": "x", "mirror": "first", "holder": "dead"}).encode())
        with self.hold(machines, "first"):
            pass

    def test_without_a_heartbeat_is_taken_over(self, machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
        machines.objects.write(REMOTE_LOCK, b"{damaged")
        with pytest.raises(ConfigError, match="an unnamed run"), self.hold(machines, "first"):
            pass
        monkeypatch.setattr(pipelines.storage.lease, "EXPIRES_AFTER_S", 0.0)
        with self.hold(machines, "first"):
            pass

    def test_that_another_run_writes_in_the_same_moment_is_that_runs(
        self, machines: Machines, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = json.dumps({"token": "x", "mirror": "second", "holder": "proser sweep digits"}).encode()
        with monkeypatch.context() as patch:
            patch.setattr(time, "sleep", lambda seconds: machines.objects.write(REMOTE_LOCK, other))
            with pytest.raises(ConfigError, match="proser sweep digits"), self.hold(machines, "first"):
                pass
        assert machines.objects.read(REMOTE_LOCK) == other

    @pytest.mark.parametrize("is_read", [True, False], ids=["open terminal", "closed terminal"])
    def test_that_another_run_took_over_interrupts_this_one(
        self, machines: Machines, monkeypatch: pytest.MonkeyPatch, is_read: bool
    ) -> None:
        monkeypatch.setattr(pipelines.storage.lease, "HEARTBEAT_S", 0.05)
        said: list[str] = []
        taken = {"token": "x", "mirror": "other", "holder": "proser sweep digits"}

        def say(line: str) -> None:
            said.append(line)
            if not is_read:
                raise BrokenPipeError

        def work() -> None:
            while not said:  # a heartbeat may come in between and overwrite it
                machines.objects.write(REMOTE_LOCK, json.dumps(taken).encode())
                time.sleep(0.1)
            time.sleep(30)

        with pytest.raises(KeyboardInterrupt), hold_lease(machines.objects, "first", "work", say):
            work()
        assert "another run has taken over" in said[0]
        assert json.loads(machines.objects.read(REMOTE_LOCK) or b"") == taken

    def test_keeps_two_runs_of_one_machine_apart_too(self, machines: Machines) -> None:
        machines.on("first")
        said = rf"another run works in {re.escape(machines.uri)}: proser run digits, .*; .* give another --storage$"
        with self.opened(machines), pytest.raises(ConfigError, match=said), self.opened(machines):
            pass

    def test_of_the_machine_that_a_mirror_was_copied_from_is_another_machines(
        self, machines: Machines, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        machines.on("first")
        with self.opened(machines), monkeypatch.context() as patch:
            lock = machines.objects.read(REMOTE_LOCK) or b""
            shutil.copytree(machines.root / "first", machines.root / "copy")
            machines.on("copy")
            patch.setattr(socket, "gethostname", lambda: "copy")
            with pytest.raises(ConfigError, match="another run works in"), self.opened(machines):
                pass
        machines.on("first")
        machines.objects.write(REMOTE_LOCK, lock)  # as a run leaves it that is killed
        with self.opened(machines):
            pass
