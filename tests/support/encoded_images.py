"""Images as the contents of files, and files of images read as a prediction reads them."""

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_tasks import random_images

from proser_core.data.readers import image_files
from proser_core.data.readers.image_files import Decoded, decoded, pieces

SIZE = 8
PIXELS = random_images(1, SIZE)[0]


def encode(image: Image.Image | np.ndarray, ending: str = "PNG", **more) -> bytes:
    file = io.BytesIO()
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(file, ending, **more)
    return file.getvalue()


def read(*paths: Path | str, length: int = 3) -> list[Decoded]:
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(image_files, "PIECE", length)
        return [part for piece in pieces(map(str, paths)) for part in decoded(piece, SIZE, pool)]
