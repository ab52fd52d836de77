"""What image files are: formats, sizes, colour, and why one cannot be read."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from time import sleep

import numpy as np
import pytest
from PIL import Image
from scenes import scene

from proser_core.data import photos
from proser_core.data.decoding import Failure, to_rgb_square
from proser_core.data.near_duplicates import SIZE, looks_of
from proser_core.data.photos import Photo, opened, read_photos
from proser_core.errors import DataError


def save(image: Image.Image, path: Path) -> str:
    image.save(path)
    return str(path)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")  # as the command line ignores it
def test_what_can_be_read_is_described_and_the_rest_has_a_reason(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(photos, "AT_ONCE", 2)
    wide, grey = scene(0).resize((90, 40)), scene(1).convert("L")
    (tmp_path / "empty.png").touch()
    (tmp_path / "gone.png").symlink_to(tmp_path / "nowhere")
    paths = [
        save(wide, tmp_path / "a.png"),
        str(tmp_path / "empty.png"),
        save(grey, tmp_path / "b.jpg"),
        str(tmp_path / "gone.png"),
        save(grey.convert("RGB"), tmp_path / "c.webp"),
        save(Image.new("1", (10_000, 10_000)), tmp_path / "100 megapixels.png"),
    ]
    seen: list[int] = []
    found, looks = read_photos(paths, seen.append)
    kinds = [(each.width, each.height, each.format, each.is_grey) for each in found if isinstance(each, Photo)]
    assert kinds == [(90, 40, "PNG", False), (120, 120, "JPEG", True), (120, 120, "WEBP", True)]
    reasons = [each.reason for each in found if isinstance(each, Failure)]
    for reason, part in zip(reasons, ("it is empty", "cannot be read", "10000 x 10000 pixels, more than"), strict=True):
        assert part in reason
    assert seen == [2, 4, 6]
    np.testing.assert_array_equal(looks.hashes[:1], looks_of(to_rgb_square(wide, SIZE)[None]).hashes)
    assert looks.patterns.shape == (3, SIZE * SIZE // 4)


def test_copies_have_one_digest_and_other_files_another(tmp_path: Path) -> None:
    first = save(scene(0), tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(Path(first).read_bytes())
    found, _ = read_photos([first, str(tmp_path / "b.png"), save(scene(0), tmp_path / "c.jpg")])
    assert all(isinstance(each, Photo) for each in found)
    digests = [each.digest for each in found if isinstance(each, Photo)]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("paths", [[], ["nowhere.png"]])
def test_without_an_image_there_are_no_looks(paths: list[str]) -> None:
    found, looks = read_photos(paths)
    assert len(found) == len(paths)
    assert looks.hashes.shape == (0,)


def test_large_images_are_not_decoded_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photos, "_room", photos._Room(40_000))
    paths = [save(scene(number), tmp_path / f"{number}.png") for number in range(12)]  # of 14,400 pixels
    inside, most = 0, 0
    lock = Lock()

    def enter(path: str) -> None:
        nonlocal inside, most
        with opened(path):
            with lock:
                inside += 1
                most = max(most, inside)
            sleep(0.01)
            with lock:
                inside -= 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(enter, paths))
    assert most == 2
    (tmp_path / "broken.png").write_bytes(b"none")
    with pytest.raises(DataError, match="broken"), opened(str(tmp_path / "broken.png")):
        pass
    with opened(paths[0]), opened(paths[1]):  # nothing was kept
        pass
