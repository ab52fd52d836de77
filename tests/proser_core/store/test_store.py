"""Finished work is found again by its inputs, and only while it is whole."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from artefacts import artefact

from proser_core.errors import ConfigError
from proser_core.store.store import MANIFEST, BuildResult, Store, import_artefact, load_if_complete

INPUTS = {"task": "abc", "lr": 0.1}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "storage")


def write(text: str) -> object:
    def build(folder: Path) -> None:
        (folder / "deep").mkdir(exist_ok=True)
        (folder / "deep" / "result.txt").write_text(text)

    return build


def test_a_finished_artefact_is_found_and_not_built_again(store: Store) -> None:
    made = store.run("stage", INPUTS, write("one"))
    found = Store(store.root).run("stage", dict(reversed(INPUTS.items())), write("two"))
    assert found == made
    assert (found.path / "deep/result.txt").read_text() == "one"


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The files, by their number on the disk, that are flushed, in their order."""
    numbers: list[int] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        numbers.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    return numbers


def test_files_are_on_the_disk_before_the_manifest_that_lists_them(store: Store, flushed: list[int]) -> None:
    """A training deletes its checkpoint then: a power cut must leave one of the two."""
    made = store.run("stage", INPUTS, write("one"))
    assert flushed == [(made.path / name).stat().st_ino for name in ("deep/result.txt", MANIFEST)]


def test_a_copy_is_on_the_disk_before_it_takes_its_place(store: Store, flushed: list[int], tmp_path: Path) -> None:
    """Its source may be deleted then."""
    made = store.run("stage", INPUTS, write("one"))
    flushed.clear()
    copy = import_artefact(made.path, "stage", Store(tmp_path / "other")).path
    assert flushed == [path.stat().st_ino for path in (copy / "deep/result.txt", copy / MANIFEST, copy.parent)]


def test_only_what_was_built_counts_as_run(store: Store) -> None:
    store.run("stage", INPUTS, write("one"))
    later = Store(store.root)
    later.run("stage", INPUTS, write("one"))
    assert set(store.ran) == {"stage"}
    assert later.ran == {}


def test_the_times_of_stages_add_up_where_one_runs_inside_another(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0, 5.0, 5.0, 10.0, 10.0])  # the inner one from 1 to 5, the outer one from 0 to 10
    monkeypatch.setattr("proser_core.store.store.time.monotonic", lambda: next(clock))
    with store.stage("outer") as whole:
        with store.stage("inner") as part:
            assert part() == 4.0
        assert whole() == 10.0
    assert store.ran == {"inner": 4.0, "outer": 6.0}


@pytest.mark.parametrize("inputs", [{**INPUTS, "lr": 0.2}, {"task": "abc"}, {**INPUTS, "more": None}])
def test_other_inputs_are_another_artefact(store: Store, inputs: dict) -> None:
    assert store.run("stage", INPUTS, write("one")).path != store.run("stage", inputs, write("one")).path


def test_the_digest_depends_on_content_alone(store: Store) -> None:
    first, same, other = (store.run("stage", {"n": n}, write(text)) for n, text in enumerate(("one", "one", "two")))
    assert first.digest == same.digest != other.digest


@pytest.mark.parametrize("harm", ["delete", "change", "no manifest"])
def test_a_deleted_or_changed_file_makes_it_stale(store: Store, harm: str) -> None:
    made = store.run("stage", INPUTS, write("one"))
    result = made.path / "deep/result.txt"
    if harm == "change":
        result.write_text("tampered")
    else:
        (result if harm == "delete" else made.path / MANIFEST).unlink()
    assert load_if_complete(made.path) is None
    assert store.run("stage", INPUTS, write("one")) == made
    assert result.read_text() == "one"


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        "null",
        '"text"',
        '{"files": [], "complete": true, "linked": []}',
        '{"files": {}, "complete": true}',
        '{"files": {}, "complete": true, "linked": null}',
        '{"files": {}, "complete": true, "linked": [1]}',
        '{"inputs": {}, "files": {}, "complete": true, "linked": ["."]}',
        f'{{"inputs": {{}}, "files": {{"{"x" * 300}": ""}}, "complete": true, "linked": []}}',
        "[" * 200_000,
    ],
)
def test_a_manifest_that_is_none_is_made_again(store: Store, text: str) -> None:
    made = store.run("stage", INPUTS, write("one"))
    (made.path / MANIFEST).write_text(text)
    assert load_if_complete(made.path) is None
    assert store.run("stage", INPUTS, write("one")) == made
    assert load_if_complete(made.path) == made


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to(path.name)], ids=["folder", "circle"])
def test_a_manifest_that_is_no_file_is_no_artefact(store: Store, make: Callable[[Path], None]) -> None:
    made = store.run("stage", INPUTS, write("one"))
    (made.path / MANIFEST).unlink()
    make(made.path / MANIFEST)
    assert load_if_complete(made.path) is None


def test_an_error_that_says_nothing_of_the_work_is_raised_and_nothing_is_made_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a disk that does not answer; here of a socket, which cannot be opened."""
    made = store.run("stage", INPUTS, write("one"))
    (made.path / MANIFEST).unlink()
    monkeypatch.chdir(made.path)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(MANIFEST)
        with pytest.raises(OSError, match=MANIFEST):
            store.run("stage", INPUTS, write("two"))
    assert (made.path / "deep/result.txt").read_text() == "one"


@pytest.mark.parametrize("name", [".lock", ".saving-x/weights"])
def test_what_is_hidden_such_as_a_lock_or_half_a_model_is_no_part_of_an_artefact(store: Store, name: str) -> None:
    def build(folder: Path) -> None:
        (folder / "result.txt").write_text("one")
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("process 1")

    made = store.run("stage", INPUTS, build)
    (made.path / name).write_text("process 2")
    assert load_if_complete(made.path) == made


@pytest.fixture
def trial(store: Store) -> Path:
    """A finished folder, to link to."""
    return artefact(store.folder("trials", {"beta": 1}), weights="weights")


@pytest.mark.parametrize("harm", ["delete", "change"])
def test_a_missing_or_changed_linked_artefact_makes_it_stale(store: Store, trial: Path, harm: str) -> None:
    made = store.run("sweep", INPUTS, lambda folder: BuildResult(linked=(trial,)))
    assert load_if_complete(made.path) == made
    if harm == "delete":
        shutil.rmtree(trial)
    else:
        (trial / "weights").write_text("tampered")
    assert load_if_complete(made.path) is None


def test_what_is_built_again_and_interrupted_is_not_taken_for_what_was_there(store: Store, trial: Path) -> None:
    """Its link is whole again, and is another one than it was made of."""
    made = store.run("sweep", INPUTS, lambda folder: BuildResult(linked=(trial,)))
    shutil.rmtree(trial)

    def interrupted(folder: Path) -> BuildResult:
        artefact(trial, weights="other weights")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run("sweep", INPUTS, interrupted)
    assert load_if_complete(trial) is not None
    assert load_if_complete(made.path) is None


def test_links_hold_after_the_storage_has_moved(store: Store, trial: Path, tmp_path: Path) -> None:
    made = store.run("sweep", INPUTS, lambda folder: BuildResult(linked=(trial,)))
    moved = tmp_path / "moved"
    store.root.rename(moved)
    assert load_if_complete(moved / made.path.relative_to(store.root)) is not None


def test_links_hold_where_a_stage_is_a_link_to_a_folder_elsewhere(store: Store, trial: Path, tmp_path: Path) -> None:
    (tmp_path / "large" / "disk").mkdir(parents=True)
    (store.root / "sweep").symlink_to(tmp_path / "large" / "disk")
    made = store.run("sweep", INPUTS, lambda folder: BuildResult(linked=(trial,)))
    assert load_if_complete(made.path) == made


def test_an_incomplete_artefact_is_built_again(store: Store) -> None:
    calls = []

    def build(folder: Path) -> BuildResult:
        calls.append(folder)
        return BuildResult(complete=len(calls) > 1)

    for expected in (1, 2, 2):
        store.run("sweep", INPUTS, build)
        assert len(calls) == expected


def test_a_build_that_fails_leaves_no_artefact_but_what_it_wrote(store: Store) -> None:
    def build(folder: Path) -> None:
        (folder / "half").write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.run("stage", INPUTS, build)
    folder = store.folder("stage", INPUTS)
    assert load_if_complete(folder) is None
    assert (folder / "half").is_file()


def test_storage_that_cannot_be_written_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot be written.*give another"):
        Store(tmp_path / "file" / "storage")


def test_opening_a_storage_leaves_nothing_behind(store: Store) -> None:
    assert list(store.root.iterdir()) == []
