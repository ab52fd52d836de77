"""SHA-256 of values and of files, which a process reads once."""

import hashlib
import os
from pathlib import Path

import pytest

from proser_core import digests
from proser_core.config import Recipe
from proser_core.digests import digest_of, sha256_of


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were read for a digest."""
    names: list[str] = []
    digest = hashlib.file_digest

    def noted(file, algorithm):
        names.append(Path(file.name).name)
        return digest(file, algorithm)

    monkeypatch.setattr(hashlib, "file_digest", noted)
    return names


def test_digests_are_equal_for_equal_values_only() -> None:
    assert digest_of(Recipe(), 1) == digest_of(Recipe(), 1)
    assert digest_of(Recipe(), 1) != digest_of(Recipe(seed=1), 1)
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})


def test_a_file_that_has_not_changed_is_read_once(tmp_path: Path, reads: list[str], monkeypatch) -> None:
    monkeypatch.setattr(digests, "SETTLED", 0)
    path = tmp_path / "weights"
    path.write_text("one")
    assert sha256_of(path) == sha256_of(path) == hashlib.sha256(b"one").hexdigest()
    assert reads == ["weights"]


def test_a_file_in_the_place_of_another_is_noticed_though_size_and_time_are_the_same(tmp_path, reads, monkeypatch):
    monkeypatch.setattr(digests, "SETTLED", 0)
    path, other = tmp_path / "weights", tmp_path / "other"
    path.write_text("one")
    other.write_text("two")
    os.utime(other, ns=(0, path.stat().st_mtime_ns))
    before = sha256_of(path)
    other.replace(path)
    assert sha256_of(path) == hashlib.sha256(b"two").hexdigest() != before
    assert reads == ["weights", "weights"]


def test_a_change_in_place_is_noticed_however_soon_it_follows(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    for text in ("one", "two", "six"):
        path.write_text(text)
        os.utime(path, ns=(0, 0))
        assert sha256_of(path) == hashlib.sha256(text.encode()).hexdigest()


def test_a_change_in_place_is_noticed_though_the_time_of_change_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "SETTLED", 0)
    path = tmp_path / "weights"
    path.write_text("one")
    before = path.stat()
    assert sha256_of(path) == hashlib.sha256(b"one").hexdigest()
    while path.stat().st_ctime_ns == before.st_ctime_ns:
        path.write_text("two")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert sha256_of(path) == hashlib.sha256(b"two").hexdigest()
