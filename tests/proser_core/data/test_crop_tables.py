"""The table of padded images that all processes of a machine share."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_tasks import batches_of, random_images

from proser_core.data.augmentation.crop_tables import padded_versions, shared_table
from proser_core.data.tasks import Labelled

IMAGES = random_images(30, 8)

HELD = """
import sys
import numpy as np
from proser_core.data.augmentation.crop_tables import shared_table
table = shared_table(np.load(sys.argv[1], mmap_mode="r"), 2, True)
table.sum()
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def mapped(tmp_path: Path) -> np.memmap:
    np.save(tmp_path / "train_images.npy", IMAGES)
    return np.load(tmp_path / "train_images.npy", mmap_mode="r")


@pytest.mark.parametrize("flip", [True, False])
@pytest.mark.parametrize("padding", [0, 3])
def test_it_is_what_a_process_would_make_for_itself(mapped: np.memmap, padding: int, flip: bool) -> None:
    want = padded_versions(IMAGES, padding, flip)
    for _ in range(2):  # written, then found
        np.testing.assert_array_equal(shared_table(mapped, padding, flip), want)
    np.testing.assert_array_equal(want[0, :, padding : 8 + padding, padding : 8 + padding], IMAGES)
    if flip:
        np.testing.assert_array_equal(want[1], want[0][:, :, ::-1])


def two_epochs(images: np.ndarray) -> list[torch.Tensor]:
    made = batches_of(Labelled(images, np.arange(len(images))), batch_size=10)
    return [batch.images for epoch in range(2) for batch in made.epoch(epoch)]


def test_batches_from_it_equal_those_from_memory(mapped: np.memmap) -> None:
    for shared, own in zip(two_epochs(mapped), two_epochs(IMAGES), strict=True):
        assert torch.equal(shared, own)


def test_a_part_of_a_file_gets_a_table_of_its_own(mapped: np.memmap, tmp_path: Path) -> None:
    """numpy gives it the name of the file, too."""
    for part in (mapped[:20], mapped[10:], mapped[:, ::-1]):
        for shared, own in zip(two_epochs(part), two_epochs(np.array(part)), strict=True):
            assert torch.equal(shared, own)
    assert list(tmp_path.glob(".*.npy")) == []


def table_in(folder: Path) -> Path:
    """The only table there is."""
    (table,) = folder.glob(".train_images.crops-*.npy")
    return table


def test_it_is_hidden_whole_and_written_once(mapped: np.memmap, tmp_path: Path) -> None:
    shared_table(mapped, 2, True)
    table = table_in(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".npy") == [table.name, "train_images.npy"]
    assert all(path.name.startswith(".") for path in tmp_path.iterdir() if path.name != "train_images.npy")
    written = table.stat().st_mtime_ns
    shared_table(mapped, 2, True)
    assert table.stat().st_mtime_ns == written


@pytest.mark.parametrize("seconds", [-1000, 1000])
@pytest.mark.parametrize("moved", [True, False])
def test_of_other_images_it_is_written_again(mapped: np.memmap, tmp_path: Path, seconds: int, moved: bool) -> None:
    """Whether another file is moved to this place or the same one is written to; also one that is older."""
    for padding in (2, 3):
        shared_table(mapped, padding, True)
    source, others = tmp_path / "train_images.npy", random_images(30, 8, seed=1)
    time = source.stat().st_mtime_ns + seconds * 10**9
    written = tmp_path / "others.npy" if moved else source
    np.save(written, others)
    os.utime(written, ns=(time, time))
    written.replace(source)
    table = shared_table(np.load(source, mmap_mode="r"), 2, True)
    np.testing.assert_array_equal(table, padded_versions(others, 2, True))
    assert table_in(tmp_path).samefile(str(table.filename)), "tables of images that are gone are removed"


@pytest.mark.parametrize("length", [0, 4, 100, 200])
def test_a_damaged_one_is_written_again(mapped: np.memmap, tmp_path: Path, length: int) -> None:
    """As a power cut may leave it: empty, or cut in its header or in its content."""
    shared_table(mapped, 2, True)
    os.truncate(table_in(tmp_path), length)
    np.testing.assert_array_equal(shared_table(mapped, 2, True), padded_versions(IMAGES, 2, True))
    np.testing.assert_array_equal(np.load(table_in(tmp_path)), padded_versions(IMAGES, 2, True))


def test_one_with_a_changed_header_is_written_again_or_read_as_it_was(mapped: np.memmap, tmp_path: Path) -> None:
    shared_table(mapped, 2, True)
    whole, want = table_in(tmp_path).read_bytes(), padded_versions(IMAGES, 2, True)
    for place in range(128):
        table_in(tmp_path).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        np.testing.assert_array_equal(shared_table(mapped, 2, True), want, f"byte {place}")


def test_tables_of_one_file_by_padding_and_of_files_beside_it_stay(mapped: np.memmap, tmp_path: Path) -> None:
    np.save(tmp_path / "train_images_2.npy", IMAGES)
    for images in (mapped, np.load(tmp_path / "train_images_2.npy", mmap_mode="r")):
        for padding in (2, 3):
            shared_table(images, padding, True)
    assert len(list(tmp_path.glob(".*.npy"))) == 4


def test_where_it_cannot_be_written_a_process_has_its_own(mapped: np.memmap, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    np.testing.assert_array_equal(shared_table(mapped, 2, True), padded_versions(IMAGES, 2, True))
    monkeypatch.undo()
    assert [path.name for path in Path(str(mapped.filename)).parent.glob("*.npy*")] == ["train_images.npy"]


@pytest.mark.skipif(not Path("/proc/self/smaps").is_file(), reason="Linux only")
def test_several_processes_hold_its_pages_once(tmp_path: Path) -> None:
    np.save(tmp_path / "train_images.npy", random_images(4000, 32))
    command = [sys.executable, "-c", HELD, str(tmp_path / "train_images.npy")]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        shares = [_megabytes(process.pid, table_in(tmp_path).name) for process in processes]
    finally:
        for process in processes:
            process.communicate("")
    size = table_in(tmp_path).stat().st_size / 2**20
    assert shares == pytest.approx([size / 2, size / 2], rel=0.1)


def _megabytes(pid: int, name: str) -> float:
    """Proportional share of the pages of a mapped file that a process holds."""
    total, inside = 0, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first = line.split()[0]
        if "-" in first and not first.endswith(":"):
            inside = line.endswith(name)
        elif inside and first == "Pss:":
            total += int(line.split()[1])
    return total / 1024
