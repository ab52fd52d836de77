"""Images of any kind from the bytes of a file: decoded correctly, or refused by name."""

import io
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from encoded_images import PIXELS, SIZE, encode, read
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from small_tasks import random_images

from proser_core.data import photos
from proser_core.data.decoding import MAX_PIXELS, count_pixels, decode_square, full_size, open_image, read_content
from proser_core.errors import DataError, ImageTooLargeError


def tiff(tags: Iterable[tuple[int, ...]], content: bytes = b"") -> bytes:
    """One strip or tile at byte 256, and tags of a number and a value, of 32 bits unless a type is given."""
    entries = [struct.pack("<HHII", tag, *(kind or (4,)), 1, value) for tag, value, *kind in tags]
    return (b"II*\x00" + struct.pack("<IH", 8, len(entries)) + b"".join(entries)).ljust(256, b"\x00") + content


def tiled(*tags: tuple[int, ...]) -> bytes:
    """A compressed grey TIFF of one tile, whose size is in the tags."""
    return tiff([(256, SIZE), (257, SIZE), (258, 8), (259, 8), (262, 1), (277, 1), *tags, (324, 256), (325, 64)])


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
        got = decode_square(encode(shades, ending), SIZE, "deep")
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

    @pytest.mark.parametrize(
        ("bits", "colours", "pixels", "key", "decoded"),
        [
            (2, 0, b"\x1b", (1,), [0, 255, 170, 255]),
            (4, 0, b"\x12\x34", (2,), [17, 255, 51, 68]),
            (16, 0, struct.pack(">4H", 0, 2580, 2581, 65535), (2580,), [0, 255, 10, 255]),
            (16, 2, struct.pack(">12H", *(2580,) * 3, *(10, 2580, 2580), *(0,) * 6), (2580,) * 3, [255, 0, 0, 0]),
        ],
    )
    def test_of_any_depth_has_a_transparent_value(
        self, bits: int, colours: int, pixels: bytes, key: tuple[int, ...], decoded: list[int]
    ) -> None:
        chunks = {
            b"IHDR": struct.pack(">IIBBBBB", 4, 4, bits, colours, 0, 0, 0),
            b"tRNS": struct.pack(f">{len(key)}H", *key),
            b"IDAT": zlib.compress((b"\0" + pixels) * 4),
            b"IEND": b"",
        }
        framed = (struct.pack(">I", len(each)) + name + each for name, each in chunks.items())
        content = b"\x89PNG\r\n\x1a\n" + b"".join(each + struct.pack(">I", zlib.crc32(each[4:])) for each in framed)
        assert decode_square(content, 4, "clear.png")[..., 0].tolist() == [decoded] * 4

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

    def test_of_a_few_bytes_that_claim_a_long_side_is_refused_before_it_is_decoded(self) -> None:
        assert decode_square(encode(Image.new("1", (1, 65_535))), SIZE, "long.png").shape == (SIZE, SIZE, 3)
        for size in ((1, 65_536), (65_536, 1)):
            with pytest.raises(ImageTooLargeError, match=r"bomb\.png: the image has \d+ x \d+ pixels; need 65,535"):
                count_pixels(encode(Image.new("1", size)), "bomb.png")

    @pytest.mark.parametrize("tag", [273, 324])
    @pytest.mark.parametrize(
        ("head", "entry"),
        [
            (b"II" + struct.pack("<HIH", 42, 8, 1), "<HHII"),
            (b"MM" + struct.pack(">HIH", 42, 8, 1), ">HHII"),
            (b"II" + struct.pack("<HHHQQ", 43, 8, 0, 16, 1), "<HHQQ"),
        ],
        ids=["little-endian", "big-endian", "BigTIFF"],
    )
    def test_of_very_many_tiles_is_refused_before_they_are_listed(
        self, tag: int, head: bytes, entry: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delattr(Image, "open")
        with pytest.raises(DataError, match=r"^slow\.tif: the TIFF has 65,537 strips or tiles; need 65,536 or fewer"):
            count_pixels(head + struct.pack(entry, tag, 4, 65_537, 0), "slow.tif")

    def test_of_a_strip_for_each_row_is_decoded(self) -> None:
        tags = ((256, 1), (257, 3), (258, 8), (259, 1), (262, 1), (277, 1), (278, 1))
        entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
        entries += struct.pack("<HHIIHHII", 273, 3, 3, 200, 279, 3, 3, 206)
        content = (b"II*\0" + struct.pack("<IH", 8, 9) + entries).ljust(200, b"\0")
        content += struct.pack("<6H", 212, 213, 214, 1, 1, 1) + bytes([10, 20, 30])
        assert decode_square(content, 3, "rows.tif")[:, 0, 0].tolist() == [10, 20, 30]

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
        content = encode(PIXELS, "JPEG", progressive=True)
        last = content[content.rindex(b"\xff\xda") : -2]
        with pytest.raises(DataError, match=r"slow\.jpg: the JPEG has 110 scans.* need 100 or fewer\. Save it again"):
            count_pixels(content[:-2] + last * 100 + content[-2:], "slow.jpg")
        for frames in (content * 9, content + b"\xff\xda" * 200):  # of progressive pictures, of a film
            np.testing.assert_array_equal(
                decode_square(content + frames, SIZE, "moving.jpg"), decode_square(content, SIZE, "still.jpg")
            )

    def test_with_many_blocks_of_exif_is_refused_before_it_is_opened(self, monkeypatch: pytest.MonkeyPatch) -> None:
        content, block = encode(PIXELS, "JPEG"), b"\xff\xe1\0\x12Exif\0\0" + b"A" * 10
        few = decode_square(content[:2] + block * 100 + content[2:], SIZE, "few.jpg")
        np.testing.assert_array_equal(few, decode_square(content, SIZE, "none.jpg"))
        monkeypatch.delattr(Image, "open")
        with pytest.raises(DataError, match=r"many\.jpg: the JPEG has 101 blocks of EXIF; need 100 or fewer\. Save"):
            count_pixels(content[:2] + block * 101 + content[2:], "many.jpg")

    def test_of_text_with_many_comments_is_refused(self) -> None:
        head, shades = b"P2\n2 2\n255\n", b"0 9 8 7\n"
        few = decode_square(head + b"#\n" * 100 + shades, 2, "few.pgm")
        np.testing.assert_array_equal(few[..., 0], [[0, 9], [8, 7]])
        with pytest.raises(DataError, match=r"many\.pgm: the PPM of text has 101 comments; need 100 or fewer\. Save"):
            count_pixels(head + b"#\n" * 101 + shades, "many.pgm")

    def test_that_is_damaged_is_read_or_refused_without_a_word_of_libraries(self) -> None:
        exif = Image.Exif()
        exif[0x010E] = "a description that is longer than four bytes"
        tiff = encode(PIXELS, "TIFF", compression="tiff_lzw")
        samples = b"\x15\x01\x03\0\x01\0\0\0"  # SamplesPerPixel, 3
        contents = [
            encode(PIXELS, "JPEG", exif=exif.tobytes()[:-20]),
            tiff[:8] + b"\xff" * 60 + tiff[68:],
            tiff.replace(samples + b"\3\0", samples + b"\0\x3c"),
        ]
        code = f"""
from contextlib import suppress
from proser_core.data.decoding import decode_square
from proser_core.errors import DataError
for content in {contents}:
    with suppress(DataError):
        decode_square(content, {SIZE}, "damaged")
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    @pytest.mark.slow
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
        content = bytearray(encode(PIXELS, "JPEG", exif=exif))
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
            (encode(random_images(1, 64)[0])[:2000], "truncated"),
        ],
        ids=["zero bytes", "null", "text", "truncated"],
    )
    def test_that_is_none_is_refused_by_name(self, content: bytes | None, reason: str) -> None:
        with pytest.raises(DataError, match=rf"some\.png: the image cannot be decoded \(.*{reason}.*repair or remove"):
            decode_square(content, SIZE, "some.png")

    def test_whose_name_is_too_long_for_the_system_is_refused_by_it(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"x\.png cannot be read \(File name too long\); repair or remove it"):
            read_content(tmp_path / f"{300 * 'x'}.png")

    def test_for_which_there_is_no_memory_is_not_called_damaged(self) -> None:
        content = encode(PIXELS)
        with pytest.raises(DataError, match=r"some\.png: there is not enough memory"), open_image(content, "some.png"):
            raise MemoryError
