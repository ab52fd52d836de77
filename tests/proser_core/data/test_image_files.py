"""Files of images from folders, patterns and Parquet: read in order, or skipped by name."""

import os
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from encoded_images import PIXELS, SIZE, encode, read
from PIL import Image
from pyarrow import parquet
from small_tasks import random_images

from proser_core.data.readers.image_files import PIECE, Decoded, check_paths, count_images, pieces, written_to
from proser_core.data.readers.walking import image_paths
from proser_core.errors import DataError


def write(path: Path, seed: int = 0) -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = random_images(1, SIZE, seed)[0]
    path.write_bytes(encode(pixels))
    return pixels


def names(parts: list[Decoded]) -> list[str]:
    return [name for part in parts for name in part.names]


@contextmanager
def few_calls() -> Iterator[int]:
    """So many calls may be nested, pytest's own among them."""
    limit, few = sys.getrecursionlimit(), 300
    sys.setrecursionlimit(few)
    try:
        yield few
    finally:
        sys.setrecursionlimit(limit)


class TestPaths:
    def test_of_every_kind_are_read_in_their_order(self, tmp_path: Path) -> None:
        want = [
            write(tmp_path / name, seed) for seed, name in enumerate(["a/2.png", "a/b/1.png", "one.png", "c/x.jpg"])
        ]
        parquet.write_table(
            pa.table({"number": [1, 2], "photo": [encode(each) for each in want[:2]]}), tmp_path / "more.parquet"
        )
        parts = read(tmp_path / "a", tmp_path / "one.png", f"{tmp_path}/c/*.jpg", tmp_path / "more.parquet")
        got = np.concatenate([part.images for part in parts])
        np.testing.assert_array_equal(got, np.stack([*want, *want[:2]])[[0, 1, 2, 3, 4, 5]])
        table = tmp_path / "more.parquet"
        assert names(parts) == [
            *(str(tmp_path / name) for name in ("a/2.png", "a/b/1.png", "one.png", "c/x.jpg")),
            f"{table}, row 0",
            f"{table}, row 1",
        ]

    @pytest.mark.parametrize("length", [1, 2, 3, 100])
    def test_give_the_same_images_whatever_is_read_at_a_time(self, tmp_path: Path, length: int) -> None:
        want = np.stack([write(tmp_path / f"{seed}.png", seed) for seed in range(7)])
        parts = read(tmp_path, length=length)
        assert max(len(part.names) for part in parts) == min(length, 7)
        np.testing.assert_array_equal(np.concatenate([part.images for part in parts]), want)

    def test_count_what_will_be_looked_at(self, tmp_path: Path) -> None:
        write(tmp_path / "a.png")
        (tmp_path / "b.png").write_bytes(b"")
        (tmp_path / "notes.txt").write_text("no image")
        parquet.write_table(pa.table({"image": [{"bytes": b"x", "path": ""}] * 5}), tmp_path / "c.parquet")
        found = count_images([str(tmp_path)])
        assert (found.count, found.has_parquet) == (7, True)

    def test_leave_other_files_alone_and_count_them(self, tmp_path: Path) -> None:
        write(tmp_path / "a.png")
        parquet.write_table(pa.table({"number": [1]}), tmp_path / "metadata.parquet")
        (tmp_path / "notes.txt").write_text("no image")
        (tmp_path / ".hidden.png").write_bytes(b"")
        assert [piece.files for piece in pieces([str(tmp_path)])] == [(str(tmp_path / "a.png"),)]
        found = count_images([str(tmp_path)])
        assert (found.others, found.first_other) == (2, str(tmp_path / "metadata.parquet"))
        assert (found.count, found.has_parquet) == (1, False)

    def test_count_and_name_images_of_formats_that_are_not_read(self, tmp_path: Path) -> None:
        """Also a raw image that Pillow would take for a TIFF file: it might be its preview."""
        write(tmp_path / "a.png")
        (tmp_path / "b.HEIC").write_bytes(b"heic")
        (tmp_path / "c.dng").write_bytes(encode(PIXELS, "TIFF"))
        assert count_images([str(tmp_path)]).count == 3
        for paths in ([tmp_path], sorted(tmp_path.iterdir())):
            (part,) = read(*paths)
            assert part.names == [str(tmp_path / "a.png")]
            assert [failure.reason for failure in part.failures] == [
                f"{tmp_path / name} is of a format that is not read; convert it to JPEG or PNG"
                for name in ("b.HEIC", "c.dng")
            ]

    @pytest.mark.parametrize(
        ("table", "reason"),
        [
            (pa.table({"number": [1]}), r"some\.parquet has no image column; .* got number"),
            (pa.table({"image": pa.array([], pa.binary())}), "have no row"),
        ],
    )
    def test_of_a_parquet_file_without_images_are_refused_by_name(
        self, tmp_path: Path, table: pa.Table, reason: str
    ) -> None:
        parquet.write_table(table, tmp_path / "some.parquet")
        with pytest.raises(DataError, match=reason):
            count_images([str(tmp_path / "some.parquet")])

    @pytest.mark.parametrize("name", ["image", "img", "photo"])
    def test_of_a_parquet_file_are_in_the_column_with_a_usual_name_or_in_the_struct(
        self, tmp_path: Path, name: str
    ) -> None:
        images = pa.array([encode(PIXELS)]) if name != "photo" else pa.array([{"bytes": encode(PIXELS)}])
        others = {"digest": pa.array([b"123"])} | ({} if name == "photo" else {"mask": pa.array([{"bytes": b"0"}])})
        parquet.write_table(pa.table({**others, name: images}), tmp_path / "some.parquet")
        (part,) = read(tmp_path / "some.parquet")
        np.testing.assert_array_equal(part.images, [PIXELS])

    @pytest.mark.parametrize("content", [b"", {"bytes": b""}])
    def test_of_a_parquet_file_that_may_be_in_several_columns_are_refused(
        self, tmp_path: Path, content: object
    ) -> None:
        parquet.write_table(pa.table({"digest": [content], "photo": [content]}), tmp_path / "some.parquet")
        with pytest.raises(
            DataError, match=r"some\.parquet may have its images in digest or photo; need one such .*: rename"
        ):
            count_images([str(tmp_path)])

    def test_name_what_cannot_be_decoded_and_go_on(self, tmp_path: Path) -> None:
        write(tmp_path / "a.png")
        (tmp_path / "b.png").write_bytes(b"no image")
        write(tmp_path / "c.png")
        (part,) = read(tmp_path)
        assert part.names == [str(tmp_path / "a.png"), str(tmp_path / "c.png")]
        assert [failure.name for failure in part.failures] == [str(tmp_path / "b.png")]

    def test_that_name_a_file_take_it_whatever_its_ending(self, tmp_path: Path) -> None:
        write(tmp_path / "photo.png").tofile(tmp_path / "other")
        (tmp_path / "photo.png").rename(tmp_path / "photo")
        assert names(read(tmp_path / "photo")) == [str(tmp_path / "photo")]
        (part,) = read(tmp_path / "other")
        assert "it is none of BMP" in part.failures[0].reason

    def test_without_any_image_are_refused(self, tmp_path: Path) -> None:
        (tmp_path / "notes.txt").write_text("no image")
        for path, reason in (
            (str(tmp_path), "holds no image"),
            (f"{tmp_path}/*.png", "matches no image"),
            (str(tmp_path / "gone"), "does not exist"),
        ):
            with pytest.raises(DataError, match=reason):
                check_paths([path])
        with pytest.raises(DataError, match="no image was given"):
            check_paths([])

    def test_a_pipe_a_device_and_a_link_in_a_circle_are_left_out_by_name(self, tmp_path: Path) -> None:
        write(tmp_path / "a.png")
        os.mkfifo(tmp_path / "pipe.png")
        (tmp_path / "endless.png").symlink_to("/dev/zero")
        (tmp_path / "circle.png").symlink_to("circle.png")
        (part,) = read(tmp_path, length=9)
        reasons = {Path(failure.name).name: failure.reason for failure in part.failures}
        assert [Path(name).name for name in part.names] == ["a.png"]
        assert sorted(reasons) == ["circle.png", "endless.png", "pipe.png"]
        assert "Too many levels" in reasons["circle.png"]
        assert "no regular file" in reasons["pipe.png"]

    def test_a_link_to_a_folder_above_is_not_followed(self, tmp_path: Path) -> None:
        write(tmp_path / "a" / "one.png")
        (tmp_path / "a" / "up").symlink_to(tmp_path)
        (tmp_path / "b").symlink_to(tmp_path / "a")  # no loop: its images count again
        assert count_images([str(tmp_path)]).count == 2
        write(tmp_path / "c" / "other.png")
        assert count_images([str(tmp_path / "a")]).count == 1
        assert count_images([str(tmp_path / "a" / "up")]).count == 3

    def test_of_folders_nested_more_deeply_than_calls_are_read_in_order(self, tmp_path: Path) -> None:
        write(tmp_path / "1.png")
        write(tmp_path / "x" / "3.png")
        deepest = tmp_path / "w"
        with few_calls() as depth:
            for _ in range(depth):
                deepest.mkdir()
                deepest /= "d"
            write(deepest / "2.png")
            try:
                assert [Path(path).name for path in image_paths(tmp_path)] == ["1.png", "2.png", "3.png"]
            finally:  # pytest would call itself for each
                (deepest / "2.png").unlink()
                os.removedirs(deepest)

    def test_of_a_pattern_with_folders_are_all_images_in_them_once(self, tmp_path: Path) -> None:
        for name in ("photos/a/1.png", "photos/a/deep/2.png", "photos/a-b/3.png", "photos/4.png"):
            write(tmp_path / name)
        (tmp_path / "photos" / "5.png").symlink_to("gone.png")  # it is named later
        for pattern in ("photos/*", "photos/**/*.png", "**"):
            files = [file for piece in pieces([f"{tmp_path}/{pattern}"]) for file in piece.files]
            assert sorted(Path(file).name for file in files) == [f"{number}.png" for number in range(1, 6)]
        (tmp_path / "empty").mkdir()
        with pytest.raises(DataError, match="matches no image"):
            check_paths([f"{tmp_path}/emp*"])

    def test_of_a_pattern_that_follows_a_link_to_a_folder_above_are_read_once_by_their_own_names(
        self, tmp_path: Path
    ) -> None:
        images = [tmp_path / "photos" / name for name in ("z/2.png", "z/deep/3.png", "zz.png")]
        for path in images:
            write(path)
        (tmp_path / "photos/link").symlink_to(tmp_path / "photos")
        for pattern, count in (("photos/**/*.png", 3), ("photos/**/z", 2)):
            files = [file for piece in pieces([f"{tmp_path}/{pattern}"]) for file in piece.files]
            assert files == [str(path) for path in images[:count]]

    def test_leave_out_what_is_to_be_written_by_whatever_name_it_has(self, tmp_path: Path) -> None:
        for name in ("a.png", "out.png"):
            write(tmp_path / name)
        (tmp_path / "link.png").symlink_to("out.png")
        (tmp_path / "other.png").symlink_to("a.png")
        outputs = written_to(tmp_path / "out.png", tmp_path / "other.png", tmp_path / "new.png", None)
        assert [piece.files for piece in pieces([str(tmp_path)], outputs)] == [(str(tmp_path / "a.png"),)]
        assert count_images([str(tmp_path)], outputs).count == 1
        check_paths([str(tmp_path), str(tmp_path / "a.png")], outputs)
        for name in ("out.png", "link.png", "other.png"):
            with pytest.raises(DataError, match=rf"{name} is to be read, and to be written; give another output"):
                check_paths([str(tmp_path / "a.png"), str(tmp_path / name)], outputs)

    def test_a_folder_that_cannot_be_read_is_refused_by_name(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(folder: str) -> None:
            raise PermissionError(13, "Permission denied")

        write(tmp_path / "one.png")
        monkeypatch.setattr("os.scandir", refuse)
        with pytest.raises(DataError, match=rf"{tmp_path} cannot be read \(Permission denied\)"):
            count_images([str(tmp_path)])

    @pytest.mark.parametrize("is_named", [False, True])
    def test_a_truncated_parquet_file_is_left_out_by_name_as_an_image_is(self, tmp_path: Path, is_named: bool) -> None:
        write(tmp_path / "one.png")
        table = tmp_path / "set.parquet"
        parquet.write_table(pa.table({"image": [encode(PIXELS)] * 3}), table)
        table.write_bytes(table.read_bytes()[:-20])
        paths = sorted(tmp_path.iterdir()) if is_named else [tmp_path]
        assert count_images(map(str, paths)).count == 2
        parts = read(*paths)
        assert names(parts) == [str(tmp_path / "one.png")]
        (failure,) = [failure for part in parts for failure in part.failures]
        assert failure.name == str(table)
        assert f"{table} is not a whole Parquet file" in failure.reason

    def test_a_parquet_file_whose_name_is_not_utf8_and_a_pipe_are_left_out_by_name(self, tmp_path: Path) -> None:
        write(tmp_path / "one.png")
        parquet.write_table(pa.table({"image": [encode(PIXELS)]}), tmp_path / "set.parquet")
        (tmp_path / "set.parquet").rename(tmp_path / os.fsdecode(b"\xff.parquet"))
        os.mkfifo(tmp_path / "pipe.parquet")
        assert count_images([str(tmp_path)]).count == 3
        parts = read(tmp_path)
        assert names(parts) == [str(tmp_path / "one.png")]
        reasons = [failure.reason for part in parts for failure in part.failures]
        assert "pipe.parquet is no regular file; remove it" in reasons[0]
        assert reasons[1].endswith(".parquet has a name that is not UTF-8; rename it")

    def test_a_parquet_file_with_damaged_pages_gives_the_images_before_them(self, tmp_path: Path) -> None:
        table = tmp_path / "set.parquet"
        column = [encode(PIXELS)] * 2 * PIECE
        parquet.write_table(pa.table({"image": column}), table, row_group_size=PIECE, use_dictionary=False)
        place = parquet.read_metadata(table).row_group(1).column(0).data_page_offset
        content = bytearray(table.read_bytes())
        content[place : place + 40] = b"\xff" * 40
        table.write_bytes(content)
        parts = read(table)
        assert names(parts) == [f"{table}, row {row}" for row in range(PIECE)]
        (failure,) = [failure for part in parts for failure in part.failures]
        assert "set.parquet is not a whole Parquet file" in failure.reason
        assert failure.reason.endswith(f"its rows from {PIECE} on are skipped")

    def test_that_wait_to_be_decoded_are_not_in_memory(self, tmp_path: Path) -> None:
        Image.new("RGB", (600, 600)).save(tmp_path / "000.bmp")
        for number in range(1, 60):
            (tmp_path / f"{number:03}.bmp").symlink_to(tmp_path / "000.bmp")
        tracemalloc.start()
        try:
            (part,) = read(tmp_path, length=100)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert len(part.names) == 60
        assert peak < 10 * (tmp_path / "000.bmp").stat().st_size
