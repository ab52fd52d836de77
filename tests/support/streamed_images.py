"""Images that are handed over by row, as an `ImageSource` does, and not held as an array."""

from collections.abc import Generator

import numpy as np


class Streamed:
    """These pixels; it remembers which rows it was asked for, and how many times it is being read."""

    def __init__(self, pixels: np.ndarray) -> None:
        self._pixels, self.size = pixels, pixels.shape[1]
        self.asked: list[np.ndarray] = []
        self.open = 0

    def __len__(self) -> int:
        return len(self._pixels)

    def batches(self, rows: np.ndarray, batch_size: int) -> Generator[np.ndarray, None, None]:
        self.asked.append(rows)
        self.open += 1
        try:
            for start in range(0, len(rows), batch_size):
                pixels = self._pixels[rows[start : start + batch_size]]
                pixels.flags.writeable = False  # as shared memory is
                yield pixels
        finally:
            self.open -= 1
