"""Photos of a folder that were decoded once: a file of pixels that every task of the folder takes its images from."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from proser_core.data.near_duplicates import Looks, links_by_looks
from proser_core.data.stored import PLACE, StoredImages

PIXELS, LOOKS = "photos.rgb", "looks.npz"
AT_ONCE = 256
"""Images that are in memory while a task of them is saved."""


class DecodedPhotos(StoredImages):
    """Images whose pixels lie one after the other in a file; a task saves them as it saves arrays, without having all
    of them in memory."""

    @classmethod
    def of(cls, folder: Path, size: int) -> "DecodedPhotos":
        """All that `save_photos` has put there at this size, in the order of their files."""
        length = 3 * size**2
        places = np.zeros((folder / PIXELS).stat().st_size // length, PLACE)
        places["row"], places["length"] = np.arange(len(places)), length
        places["offset"] = length * places["row"]
        return cls(np.array([os.fsencode(folder / PIXELS)], np.bytes_), places, size)

    @property
    def contents(self) -> np.ndarray:
        """As of `StoredImages`, taken when the photos were decoded."""
        if not len(self):
            return np.zeros(0, np.uint64)
        with np.load(Path(os.fsdecode(self.files[0])).with_name(LOOKS)) as looks:
            return looks["contents"][self.places["row"]]

    def _decode(self, place: Any) -> np.ndarray:
        count, offset = int(place["length"]), int(place["offset"])
        pixels = np.fromfile(os.fsdecode(self.files[place["file"]]), np.uint8, count, offset=offset)
        return pixels.reshape(self.size, self.size, 3)

    def save(self, folder: Path, name: str, unpacked: Path | None = None) -> None:
        """Write NAME_images.npy, byte for byte as `numpy.save` would."""
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(self), self.size, self.size, 3)}
        with (folder / f"{name}_images.npy").open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            file.writelines(pixels.data for pixels in self.batches(np.arange(len(self)), AT_ONCE))


@lru_cache(maxsize=1)
def links_in(folder: Path) -> np.ndarray:
    """`links_by_looks` of what `save_photos` has put there; kept, because each part of each task asks for it."""
    with np.load(folder / LOOKS) as looks:
        return links_by_looks(Looks(looks["hashes"], looks["patterns"]))
