"""Images of any kind, from files, folders, patterns and Parquet: read correctly, or skipped by name."""

import io
import os
import struct
import tracemalloc
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pyarrow import parquet
from small_tasks import random_images

from proser_core.data import photos
from proser_core.data.decoding import MAX_PIXELS, count_pixels, decode_square, full_size, open_image
from proser_core.data.readers import image_files
from proser_core.data.readers.image_files import (
    PIECE,
    Decoded,
    Found,
    check_paths,
    count_images,
    decoded,
    pieces,
    written_to,
)
from proser_core.errors import DataError, ImageTooLargeError

SIZE = 8
PIXELS = random_images(1, SIZE)[0]


def encode(image: Image.Image, ending: str = "PNG", **more) -> bytes:
    file = io.BytesIO()
    image.save(file, ending, **more)
    return file.getvalue()


def tiff(tags: Iterable[tuple[int, ...]], content: bytes = b"") -> bytes:
    """One strip or tile at byte 256, and tags of a number and a value, of 32 bits unless a type is given."""
    entries = [struct.pack("<HHII", tag, *(kind or (4,)), 1, value) for tag, value, *kind in tags]
    return (b"II*\x00" + struct.pack("<IH", 8, len(entries)) + b"".join(entries)).ljust(256, b"\x00") + content


def tiled(*tags: tuple[int, ...]) -> bytes:
    """A compressed grey TIFF of one tile, whose size is in the tags."""
    return tiff([(256, SIZE), (257, SIZE), (258, 8), (259, 8), (262, 1), (277, 1), *tags, (324, 256), (325, 64)])


def write(path: Path, seed: int = 0) -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = random_images(1, SIZE, seed)[0]
    path.write_bytes(encode(Image.fromarray(pixels)))
    return pixels


def read(*paths: Path | str, length: int = 3) -> list[Decoded]:
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(image_files, "PIECE", length)
        return [part for piece in pieces(map(str, paths)) for part in decoded(piece, SIZE, pool)]


def names(parts: list[Decoded]) -> list[str]:
    return [name for part in parts for name in part.names]


class TestOneImage:
    @pytest.mark.parametrize("ending", ["EPS", "ICO", "ICNS", "PCX", "TGA"])
    def test_of_a_format_that_is_not_documented_is_not_even_opened(self, ending: str) -> None:
        content = encode(Image.new("RGB", (32, 32)), ending)
        Image.open(io.BytesIO(content)).close()  # Pillow itself would
        with pytest.raises(DataError, match=r"a\.jpg: the image cannot be decoded \(it is none of BMP, GIF, JPEG"):
            decode_square(content, SIZE, "a.jpg")

    @pytest.mark.parametrize("ending", ["PNG", "TIFF"])
    def test_of_sixteen_bits_keeps_its_shades(self, ending: str) -> None:
        shades = np.arange(SIZE * SIZE, dtype=np.uint16).reshape(SIZE, SIZE) * 1000
        got = decode_square(encode(Image.fromarray(shades), ending), SIZE, "deep")
        np.testing.assert_array_equal(got, np.repeat((shades // 257).astype(np.uint8)[..., None], 3, axis=2))

    @pytest.mark.parametrize("bits", [8, 16])
    def test_of_a_tiff_whose_zero_is_white_is_no_negative(self, bits: int) -> None:
        shades = np.arange(SIZE * SIZE, dtype=np.uint8).reshape(SIZE, SIZE)
        values = shades if bits == 8 else shades * np.uint16(257)
        tags = ((256, SIZE), (257, SIZE), (258, bits), (262, 0), (273, 256), (277, 1), (279, values.nbytes))
        got = decode_square(tiff(tags, values.tobytes()), SIZE, "scan.tif")
        np.testing.assert_array_equal(got, np.repeat(255 - shades[..., None], 3, axis=2))

    @pytest.mark.parametrize("largest", [65535, 4095, 256])
    @pytest.mark.parametrize("plain", [False, True])
    def test_of_a_deep_pgm_keeps_its_shades(self, largest: int, plain: bool) -> None:
        shades = np.linspace(0, largest, SIZE * SIZE).astype(np.uint16).reshape(SIZE, SIZE)
        content = " ".join(map(str, shades.ravel())).encode() if plain else shades.astype(">u2").tobytes()
        kind = "P2" if plain else "P5"
        got = decode_square(f"{kind}\n{SIZE} {SIZE}\n{largest}\n".encode() + content, SIZE, "deep.pgm")
        np.testing.assert_allclose(got[..., 0], shades * (255 / largest), atol=1)
        assert (got[0, 0, 0], got[-1, -1, 0]) == (0, 255)

    @pytest.mark.parametrize(("content", "shade"), [(b"\xff", 255), (b"\x00", 0), (b"\x88", 0x88)])
    def test_of_a_twelve_bit_tiff_keeps_its_shades(self, content: bytes, shade: int) -> None:
        tags = {256: SIZE, 257: SIZE, 258: 12, 259: 1, 262: 1, 273: 256, 277: 1, 278: SIZE, 279: SIZE * SIZE * 3 // 2}
        got = decode_square(tiff(tags.items(), content * (SIZE * SIZE * 3 // 2)), SIZE, "camera.tif")
        assert (got == shade).all()

    @pytest.mark.parametrize(("kind", "named"), [(np.int32, "signed or 32-bit integers"), (np.float32, "floating")])
    def test_of_unknown_range_is_refused_rather_than_clipped(self, kind: type, named: str, tmp_path: Path) -> None:
        content = encode(Image.fromarray(np.linspace(0, 4095, SIZE * SIZE).astype(kind).reshape(SIZE, SIZE)), "TIFF")
        with pytest.raises(DataError, match=rf"^raw\.tif: the image has {named}.*; save it with 8 or 16 bits"):
            decode_square(content, SIZE, "raw.tif")
        (tmp_path / "raw.tif").write_bytes(content)
        (part,) = read(tmp_path)
        assert [failure.name for failure in part.failures] == [str(tmp_path / "raw.tif")]

    def test_of_a_palette_has_its_colours(self) -> None:
        image = Image.fromarray(PIXELS).quantize(16)
        got = decode_square(encode(image), SIZE, "palette.png")
        np.testing.assert_array_equal(got, np.asarray(image.convert("RGB")))

    @pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
    def test_lies_on_white_where_it_is_transparent(self, mode: str) -> None:
        image = Image.new("RGBA", (SIZE, SIZE), (10, 20, 30, 0)).convert(mode)
        more = {"transparency": 0} if mode == "P" else {}
        got = decode_square(encode(image, **more), SIZE, "clear.png")
        assert (got == 255).all()

    def test_of_four_inks_becomes_rgb(self) -> None:
        image = Image.new("CMYK", (SIZE, SIZE), (255, 0, 0, 0))
        got = decode_square(encode(image, "JPEG", quality=95), SIZE, "inks.jpg")
        assert got[0, 0, 0] < 20
        assert got[0, 0, 1] > 200

    def test_is_turned_as_exif_says(self) -> None:
        image = Image.fromarray(PIXELS)
        exif = image.getexif()
        exif[274] = 6  # the camera was turned: rows are columns
        got = decode_square(encode(image, exif=exif), SIZE, "turned.png")
        np.testing.assert_array_equal(got, np.rot90(PIXELS, k=-1))

    @pytest.mark.parametrize(("ending", "mode"), [("PNG", "RGB"), ("GIF", "P")])
    def test_of_an_animation_is_its_first_frame(self, tmp_path: Path, ending: str, mode: str) -> None:
        frames = [Image.fromarray(each).convert(mode) for each in random_images(3, SIZE)]
        path = tmp_path / f"moving.{ending.lower()}"
        path.write_bytes(encode(frames[0], ending, save_all=True, append_images=frames[1:]))
        (part,) = read(tmp_path)
        np.testing.assert_array_equal(part.images[0], np.asarray(frames[0].convert("RGB")))

    def test_of_a_few_bytes_that_claim_many_pixels_is_refused_before_it_is_decoded(self) -> None:
        side = int(MAX_PIXELS**0.5) + 1
        bomb = encode(Image.new("1", (side, side)))
        assert len(bomb) < 100_000
        with pytest.raises(DataError, match=rf"bomb.png: the image has {side} x {side} pixels, more than 67,108,864"):
            decode_square(bomb, SIZE, "bomb.png")

    def test_of_a_large_tile_counts_as_one_of_many_pixels(self, tmp_path: Path) -> None:
        assert count_pixels(tiled((322, 4000), (323, 3000)), "map.tif") == 12_000_000
        with pytest.raises(ImageTooLargeError, match=r"bomb\.tif: the image's tile has 9000 x 8000 pixels, more than"):
            count_pixels(tiled((322, 9000), (323, 8000)), "bomb.tif")
        (tmp_path / "map.tif").write_bytes(tiled((322, 4000), (323, 3000)))
        free = photos._room._free
        with photos.opened(str(tmp_path / "map.tif")):
            assert photos._room._free == free - 12_000_000

    @pytest.mark.parametrize("kinds", [(4, 4), (17, 4), (4, 18), (8,)])
    def test_whose_tile_has_another_size_for_libtiff_is_refused(self, kinds: tuple[int, ...]) -> None:
        tags = [(tag, 16, kind) for kind in kinds for tag in (322, 323)]
        with pytest.raises(DataError, match=r"bomb\.tif: .* \(its tiles have no size of the standard\); repair"):
            count_pixels(tiled(*tags), "bomb.tif")

    def test_whose_scans_repeat_is_refused_and_a_video_behind_one_is_not(self) -> None:
        content = encode(Image.fromarray(PIXELS), "JPEG", progressive=True)
        last = content[content.rindex(b"\xff\xda") : -2]
        with pytest.raises(DataError, match=r"slow\.jpg: the JPEG has 110 scans.* need 100 or fewer\. Save it again"):
            count_pixels(content[:-2] + last * 100 + content[-2:], "slow.jpg")
        for frames in (content * 9, content + b"\xff\xda" * 200):  # of progressive pictures, of a film
            np.testing.assert_array_equal(
                decode_square(content + frames, SIZE, "moving.jpg"), decode_square(content, SIZE, "still.jpg")
            )

    def test_of_a_large_camera_is_decoded_at_a_half_of_its_width(self) -> None:
        small = np.asarray(Image.fromarray(random_images(1, 8)[0]).resize((100, 80), Image.Resampling.BICUBIC))
        large = Image.fromarray(small).resize((12_000, 9_000), Image.Resampling.BICUBIC)  # 108 megapixels
        content = encode(large, "JPEG", quality=95)
        assert count_pixels(content, "large.jpg") == 108_000_000
        with open_image(content, "large.jpg") as image:
            assert (image.size, full_size(image)) == ((6_000, 4_500), (12_000, 9_000))
        found = decode_square(content, 32, "large.jpg").astype(int)
        reference = np.asarray(large.resize((32, 32), Image.Resampling.BICUBIC)).astype(int)
        assert np.abs(found - reference).mean() < 1
        with pytest.raises(DataError, match="12000 x 9000 pixels, more than"):
            decode_square(encode(large.convert("1")), SIZE, "large.png")

    def test_of_a_large_camera_may_have_a_second_picture(self) -> None:
        large = Image.new("L", (9_000, 8_000), 90)
        content = encode(large, "MPO", save_all=True, append_images=[large.reduce(100)])
        with open_image(content, "large.jpg") as image:
            assert (image.size, full_size(image)) == ((4_500, 4_000), (9_000, 8_000))
            assert image.getextrema() == (90, 90)

    @settings(max_examples=60, deadline=None)
    @given(st.data())
    def test_of_any_damage_is_an_image_or_a_data_error(self, data: st.DataObject) -> None:
        exif = Image.Exif()
        exif[274], exif[36864] = 6, "0230"
        content = bytearray(encode(Image.fromarray(PIXELS), "JPEG", exif=exif))
        for _ in range(data.draw(st.integers(1, 12))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
        with suppress(DataError):
            assert decode_square(bytes(content), SIZE, "damaged.jpg").shape == (SIZE, SIZE, 3)

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"", "it is empty"),
            (None, "it is empty"),
            (b"hello, this is text", "it is none of BMP"),
            (encode(Image.fromarray(random_images(1, 64)[0]))[:2000], "truncated"),
        ],
        ids=["zero bytes", "null", "text", "truncated"],
    )
    def test_that_is_none_is_refused_by_name(self, content: bytes | None, reason: str) -> None:
        with pytest.raises(DataError, match=rf"some\.png: the image cannot be decoded \(.*{reason}.*repair or remove"):
            decode_square(content, SIZE, "some.png")


class TestPaths:
    def test_of_every_kind_are_read_in_their_order(self, tmp_path: Path) -> None:
        want = [
            write(tmp_path / name, seed) for seed, name in enumerate(["a/2.png", "a/b/1.png", "one.png", "c/x.jpg"])
        ]
        parquet.write_table(
            pa.table({"number": [1, 2], "photo": [encode(Image.fromarray(each)) for each in want[:2]]}),
            tmp_path / "more.parquet",
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
        assert count_images([str(tmp_path)]) == 7

    def test_leave_other_files_alone_and_count_them(self, tmp_path: Path) -> None:
        write(tmp_path / "a.png")
        parquet.write_table(pa.table({"number": [1]}), tmp_path / "metadata.parquet")
        (tmp_path / "notes.txt").write_text("no image")
        (tmp_path / ".hidden.png").write_bytes(b"")
        found = Found()
        assert [piece.files for piece in pieces([str(tmp_path)], found)] == [(str(tmp_path / "a.png"),)]
        assert (found.others, found.first_other) == (2, str(tmp_path / "metadata.parquet"))

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
        assert count_images([str(tmp_path)]) == 2

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

    def test_leave_out_what_is_to_be_written_by_whatever_name_it_has(self, tmp_path: Path) -> None:
        for name in ("a.png", "out.png"):
            write(tmp_path / name)
        (tmp_path / "link.png").symlink_to("out.png")
        (tmp_path / "other.png").symlink_to("a.png")
        found = Found(outputs=written_to(tmp_path / "out.png", tmp_path / "other.png", tmp_path / "new.png", None))
        assert [piece.files for piece in pieces([str(tmp_path)], found)] == [(str(tmp_path / "a.png"),)]
        check_paths([str(tmp_path), str(tmp_path / "a.png")], found)
        for name in ("out.png", "link.png", "other.png"):
            with pytest.raises(DataError, match=rf"{name} is to be read, and to be written; give another output"):
                check_paths([str(tmp_path / "a.png"), str(tmp_path / name)], found)

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
        parquet.write_table(pa.table({"image": [encode(Image.fromarray(PIXELS))] * 3}), table)
        table.write_bytes(table.read_bytes()[:-20])
        paths = sorted(tmp_path.iterdir()) if is_named else [tmp_path]
        assert count_images(map(str, paths)) == 2
        parts = read(*paths)
        assert names(parts) == [str(tmp_path / "one.png")]
        (failure,) = [failure for part in parts for failure in part.failures]
        assert failure.name == str(table)
        assert f"{table} is not a whole Parquet file" in failure.reason

    def test_a_parquet_file_with_damaged_pages_gives_the_images_before_them(self, tmp_path: Path) -> None:
        table = tmp_path / "set.parquet"
        column = [encode(Image.fromarray(PIXELS))] * 2 * PIECE
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
