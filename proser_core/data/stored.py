"""Encoded images on disk, read and decoded row by row: what a set that memory does not hold is trained from."""

import os
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Self

import numpy as np

from proser_core.data.decoding import decode_all, decode_square, read_content
from proser_core.errors import DataError

PLACE = np.dtype([("file", np.int32), ("row", np.int64), ("offset", np.int64), ("length", np.int64)])
WHOLE_FILE = -1
"""The `row` and `length` of an image that has a file of its own; other rows name an image to people."""


@dataclass(frozen=True)
class StoredImages:
    """N images, each `length` bytes (-1: all) from `offset` of a file, which are decoded to `size` pixels square.

    files bytes[F] are absolute paths, places PLACE[N]; both may be mapped from disk. `saved` is the folder
    and the name under which they were saved, if they were.
    """

    files: np.ndarray
    places: np.ndarray
    size: int
    saved: tuple[str, str] = ("", "")

    @classmethod
    def of_files(cls, paths: Sequence[str], size: int) -> "StoredImages":
        """Images that have a file each."""
        places = np.zeros(len(paths), PLACE)
        places["file"], places["row"], places["length"] = np.arange(len(paths)), WHOLE_FILE, WHOLE_FILE
        return cls(np.array([os.fsencode(path) for path in paths], np.bytes_), places, size)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, rows: np.ndarray) -> Self:
        """The images at `rows` (indices or a mask), still encoded."""
        return type(self)(self.files, self.places[rows], self.size)

    def joined(self, others: "StoredImages") -> Self:
        """These images and then others of the same size, still encoded."""
        places = np.concatenate([self.places, others.places])
        places["file"][len(self) :] += len(self.files)
        return type(self)(np.concatenate([self.files, others.files]), places, self.size)

    @property
    def contents(self) -> np.ndarray | None:
        """uint64[N]: digests of their files, which are read for this; None where an image has no file of its own.
        Raises DataError for one that cannot be read."""
        if (self.places["length"] != WHOLE_FILE).any():
            return None
        paths = [Path(os.fsdecode(file)) for file in self.files[self.places["file"]]]
        return numbered([digest_of(read_content(path) or b"") for path in paths])

    def read(self, rows: np.ndarray) -> np.ndarray:
        """uint8[n, size, size, 3] of `rows` int64[n], in this thread.

        Raises DataError, with its file, for an image that is gone or cannot be decoded.
        """
        pixels = np.empty((len(rows), self.size, self.size, 3), np.uint8)
        for position, place in enumerate(self.places[rows]):
            pixels[position] = self._decode(place)
        return pixels

    def decoded(self) -> np.ndarray:
        """uint8[N, size, size, 3]: all images, decoded by threads. Raises as `read`."""
        return decode_all(lambda row: self._decode(self.places[row]), len(self), self.size)

    def batches(self, rows: np.ndarray, batch_size: int) -> Generator[np.ndarray, None, None]:
        """As `ImageSource`: each batch is decoded by threads of this process once it is requested."""
        with ThreadPoolExecutor() as pool:
            for start in range(0, len(rows), batch_size):
                yield np.stack(list(pool.map(self._decode, self.places[rows[start : start + batch_size]])))

    def _decode(self, place: Any) -> np.ndarray:
        path = os.fsdecode(self.files[place["file"]])
        name = path if place["row"] == WHOLE_FILE else f"{path}, row {place['row']}"
        try:
            with open(path, "rb") as file:
                file.seek(place["offset"])
                encoded = file.read(place["length"])
        except OSError as error:
            raise DataError(f"{name} cannot be read ({error.strerror}); put it back, or prepare again") from error
        return decode_square(encoded, self.size, name)

    def save(self, folder: Path, name: str, unpacked: Path | None = None) -> None:
        """Write the places, not the images, as NAME_files.npy and NAME_places.npy; files in the folder `unpacked` by
        their paths from this one, so that both can move."""
        files = self.files
        if unpacked is not None:
            own, here = os.path.join(os.fsencode(unpacked), b""), os.fsencode(folder.resolve())
            paths = [os.path.relpath(file, here) if file.startswith(own) else file for file in files]
            files = np.array(paths, np.bytes_)
        np.save(folder / f"{name}_files.npy", files)
        np.save(folder / f"{name}_places.npy", self.places)

    @classmethod
    def load(cls, folder: Path, name: str, size: int) -> "StoredImages":
        """Map what `save` wrote into memory, read only."""
        files, places = (np.load(folder / f"{name}_{kind}.npy", mmap_mode="r") for kind in ("files", "places"))
        if len(files) and files[0].startswith(b".."):  # then all are relative
            files = np.array([os.path.realpath(os.path.join(os.fsencode(folder), file)) for file in files], np.bytes_)
        return cls(files, places, size, (str(folder), name))

    @staticmethod
    def is_saved(folder: Path, name: str) -> bool:
        """Whether `save` has written this name there."""
        return (folder / f"{name}_places.npy").is_file()


def digest_of(content: bytes) -> bytes:
    """Digest of a photo's file, 16 bytes: it tells a photo, whatever its path, its class and the size it is seen at."""
    return blake2b(content, digest_size=16).digest()


def numbered(digests: Sequence[bytes]) -> np.ndarray:
    """uint64[N]: digests as numbers."""
    return np.array([int.from_bytes(each[:8], "little") for each in digests], np.uint64)
