"""Files and finished folders of a storage behind a URI, as one machine writes them and another reads them."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from artefacts import artefact
from storages import Machines
from waiting import PATIENCE_S

from pipelines.storage.objects import Objects, open_objects
from pipelines.storage.transfer import pull, push
from proser_core.digests import sha256_of
from proser_core.errors import ConfigError
from proser_core.store.store import MANIFEST, BuildResult, load_if_complete, write_manifest


def fail_at(objects: Objects, count: int) -> Objects:
    """The same storage for a process that dies in its `count`-th upload."""
    uploads: list[str] = []

    class Dying(Objects):
        def upload(self, source: Path, name: str) -> None:
            uploads.append(name)
            if len(uploads) == count:
                raise KeyboardInterrupt
            super().upload(source, name)

    return Dying(objects.uri, objects.files, objects.root)


class TestFilesBelowAUri:
    def test_are_read_replaced_listed_and_deleted(self, machines: Machines, tmp_path: Path) -> None:
        objects = machines.objects
        assert objects.read("a/b") is None
        assert objects.listing("a") == {}
        objects.write("a/b", b"1")
        objects.write("a/b", b"22")
        (tmp_path / "here").write_bytes(bytes(12_000_000))  # several parts of an upload
        objects.upload(tmp_path / "here", "a/deep/c")
        assert objects.read("a/b") == b"22"
        assert {name: stamp[0] for name, stamp in objects.listing("a").items()} == {"a/b": 2, "a/deep/c": 12_000_000}
        objects.download("a/deep/c", tmp_path / "there/c")
        assert sha256_of(tmp_path / "there/c") == sha256_of(tmp_path / "here")
        objects.delete("a/b")
        objects.delete("a/b")
        assert objects.stamp("a/b") is None
        with pytest.raises(FileNotFoundError):
            objects.download("a/b", tmp_path / "there/b")

    def test_a_write_that_fails_leaves_no_file(self, tmp_path: Path) -> None:
        objects = Objects.from_uri(tmp_path.as_uri())
        objects.write("folder/file", b"1")
        with pytest.raises(OSError, match="folder"):
            objects.write("folder", b"2")
        assert objects.listing("").keys() == {"folder/file"}

    @pytest.mark.parametrize(
        ("uri", "message"),
        [
            ("foo://bucket/x", "cannot be written and read .Unrecognized filesystem type"),
            ("s3://nowhere/x?{s3}", "NO_SUCH_BUCKET"),
            ("s3://key:secret@bucket/x", "a URI with a password, key or token in it"),
            ("abfss://c@account.dfs.core.windows.net/x?sv=1&sig=secret", "a URI with a password, key or token in it"),
            ("file://{here}/file/x", "cannot be written and read"),
            ("file://relative/x", "check the URI"),
        ],
    )
    def test_a_uri_that_cannot_be_used_is_refused(self, uri: str, message: str, s3: str, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(ConfigError, match=message) as refused:
            open_objects(uri.format(s3=s3, here=tmp_path))
        assert len(str(refused.value).splitlines()) == 1
        assert "secret" not in str(refused.value)


class TestAFinishedFolder:
    def test_is_the_same_on_another_machine(self, machines: Machines) -> None:
        first, second = machines.mirror("first"), machines.mirror("second")
        made = artefact(first.root / "trials/k", a="1", b="2")
        first.push(made)
        second.sync([second.root / "trials/k"])
        found = load_if_complete(second.root / "trials/k")
        assert found.digest == load_if_complete(made).digest

    def test_brings_those_that_it_links_to(self, machines: Machines) -> None:
        first, second = machines.mirror("first"), machines.mirror("second")
        linked = artefact(first.root / "trials/k", a="1")
        first.sync([linked])
        (first.root / "sweep/s").mkdir(parents=True)
        write_manifest(first.root / "sweep/s", {}, BuildResult(linked=(linked,)))
        first.push(first.root / "sweep/s")
        second.sync([second.root / "sweep/s"])
        assert load_if_complete(second.root / "sweep/s") is not None

    def test_takes_those_that_it_links_to_along_where_all_are_finished_here_alone(self, machines: Machines) -> None:
        first, second = machines.mirror("first"), machines.mirror("second")
        (first.root / "sweep/s").mkdir(parents=True)
        linked = artefact(first.root / "trials/k", a="1")
        write_manifest(first.root / "sweep/s", {}, BuildResult(linked=(linked,)))
        first.sync([first.root / "sweep/s"])
        second.sync([second.root / "sweep/s"])
        assert load_if_complete(second.root / "sweep/s") is not None

    @pytest.mark.parametrize("count", [1, 2])
    def test_of_which_only_a_part_got_there_is_none(self, machines: Machines, count: int) -> None:
        first, second = machines.mirror("first"), machines.mirror("second")
        made = artefact(first.root / "trials/k", a="1", b="2")
        with pytest.raises(KeyboardInterrupt):
            push(fail_at(machines.objects, count), made, "trials/k")
        second.sync([second.root / "trials/k"])
        assert load_if_complete(second.root / "trials/k") is None
        first.sync([made])
        second.sync([second.root / "trials/k"])
        assert load_if_complete(second.root / "trials/k") is not None

    def test_that_replaces_another_never_stands_under_the_old_manifest(self, machines: Machines) -> None:
        mirror = machines.mirror("first")
        mirror.push(artefact(mirror.root / "trials/k", a="1", b="2"))
        with pytest.raises(KeyboardInterrupt):
            push(fail_at(machines.objects, 2), artefact(mirror.root / "trials/k", a="3", b="4"), "trials/k")
        assert machines.objects.read(f"trials/k/{MANIFEST}") is None

    @pytest.mark.parametrize("change", ["changed", "missing", "manifest"])
    def test_that_was_changed_is_refused_and_made_whole_from_where_it_is(self, machines: Machines, change: str) -> None:
        first, second = machines.mirror("first"), machines.mirror("second")
        made = artefact(first.root / "trials/k", a="1", b="2")
        first.push(made)
        if change == "changed":
            machines.objects.write("trials/k/b", b"9")
        elif change == "missing":
            machines.objects.delete("trials/k/b")
        else:
            machines.objects.write(f"trials/k/{MANIFEST}", b'{"files": {"../../b": "x"}, "complete": true}')
        assert not pull(machines.objects, "trials/k", second.root / "trials/k")
        assert load_if_complete(second.root / "trials/k") is None
        machines.mirror("first").sync([made])
        assert pull(machines.objects, "trials/k", second.root / "trials/k")
        assert load_if_complete(second.root / "trials/k") is not None


def test_two_threads_that_bring_one_folder_at_a_time_both_have_it_and_it_stays(tmp_path: Path) -> None:
    """Each is held in the middle of its download until the other one is there too."""
    both = threading.Barrier(2, timeout=PATIENCE_S)

    class Slow(Objects):
        def download(self, name: str, path: Path) -> None:
            super().download(name, path)
            both.wait()

    (tmp_path / "there").mkdir()
    objects = Slow.from_uri((tmp_path / "there").as_uri())
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "file").write_text("content")
    write_manifest(tmp_path / "made", {})
    push(objects, tmp_path / "made", "trials/k")
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: pull(objects, "trials/k", tmp_path / "here"), range(2)))
    assert found == [True, True]
    assert load_if_complete(tmp_path / "here") is not None
    assert objects.read(f"trials/k/{MANIFEST}") is not None
