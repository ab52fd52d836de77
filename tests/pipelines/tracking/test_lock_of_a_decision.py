"""One decision on a model at a time, where the user's home can hold the lock."""

import errno
import fcntl
from pathlib import Path

import pytest

from pipelines.tracking import decisions
from pipelines.tracking.decisions import alone
from proser_core.errors import TrackingError
from proser_core.store.lock import LOCK


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(decisions, "LOCKS", tmp_path / "locks")
    return tmp_path / "locks"


def test_a_second_decision_on_a_model_waits_and_one_on_another_model_does_not() -> None:
    with alone("digits"):
        with alone("photos"):
            pass
        with pytest.raises(TrackingError, match="another decision on the model 'digits' is being made here"):
            alone("digits").__enter__()
    with alone("digits"):
        pass


def test_a_home_that_cannot_lock_holds_no_decision_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with alone("digits"):
        pass


def test_a_user_without_a_home_decides_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "LOCKS", Path("~no-such-user/locks"))
    with alone("digits"):
        pass


def test_a_lock_that_cannot_be_opened_holds_no_decision_up(locks: Path) -> None:
    with alone("digits"):
        (lock,) = locks.glob(f"*/{LOCK}")
    lock.unlink()
    lock.mkdir()
    with alone("digits"):
        pass


def test_an_error_of_the_decision_itself_is_not_taken_for_one_of_the_lock() -> None:
    with pytest.raises(RuntimeError, match="of its own"), alone("digits"):
        raise RuntimeError("of its own")
