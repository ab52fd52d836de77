"""Reader of torchvision's own data folders (MNIST, CIFAR10 and CIFAR100), and of SVHN's files, which it has no folder
for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
from PIL import Image

from proser_core.data.decoding import to_rgb_square
from proser_core.data.image_sets import ImageSet
from proser_core.data.readers.fingerprints import Fingerprints, fingerprints_of
from proser_core.data.readers.layout import Classes, Part, of_classes
from proser_core.errors import DataError

CONTENTS = {
    "MNIST": ("MNIST/raw/",),
    "CIFAR10": ("cifar-10-batches-py/",),
    "CIFAR100": ("cifar-100-python/",),
    "SVHN": ("train_32x32.mat", "test_32x32.mat"),
}
"""The folder, or the files, that a data set of torchvision has in its root."""
DOWNLOAD = "--data.download, or --download of proser reproduce"  # how torchvision is asked to fetch what is missing


@dataclass(frozen=True)
class TorchvisionLayout:
    """What a torchvision data set keeps in its root. With `download`, torchvision fetches it."""

    class_name: str
    download: bool = False
    name: str = "torchvision"

    @property
    def needs(self) -> str:
        return f"torchvision's {' and '.join(CONTENTS[self.class_name])}"

    def is_present(self, root: Path) -> bool:
        return all((root / name).exists() for name in CONTENTS[self.class_name])

    def fingerprints(self, root: Path) -> Fingerprints:
        if self.download:  # what was published decides, before the files are here and after
            return []
        paths = [root / name for name in CONTENTS[self.class_name]]
        if paths[0].is_dir():
            paths = sorted(path for path in paths[0].iterdir() if path.is_file())
        return fingerprints_of(paths)

    def read(self, root: Path, part: Part, *, size: int, classes: Classes = None, count: int | None = None) -> ImageSet:
        import torchvision  # torch, which preparing other layouts does not need

        cls: Any = getattr(torchvision.datasets, self.class_name)
        is_svhn = self.class_name == "SVHN"
        where = f"{root / ' and '.join(CONTENTS[self.class_name])}"
        chosen: dict[str, Any] = {"split": part} if is_svhn else {"train": part == "train"}
        try:
            dataset = cls(root, download=self.download, **chosen)
        except URLError as error:
            raise DataError(
                f"torchvision could not download {self.class_name} to {root} ({error.reason}); need internet, or "
                f"{self.needs} from elsewhere in that folder"
            ) from error
        except Exception as error:  # torchvision raises RuntimeError, OSError, UnpicklingError and others
            raise DataError(
                f"{where} cannot be read as torchvision's {self.class_name} ({error}); remove "
                f"{'both files' if is_svhn else 'the folder'} and fetch it again, for instance by {DOWNLOAD}"
            ) from error
        if count is not None and len(dataset) != count:
            raise DataError(f"{where} has {len(dataset)} {part} images; the data set has {count}")
        labels = np.asarray(dataset.labels if is_svhn else dataset.targets, dtype=np.int64)
        wanted = of_classes(labels, classes)
        pixels = np.asarray(dataset.data)[wanted]
        if is_svhn:  # channels first, and digits without names
            pixels = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
        if pixels.shape[1:] != (size, size, 3):  # another size, or grey
            squares = [to_rgb_square(Image.fromarray(image), size) for image in pixels]
            pixels = np.stack(squares) if squares else np.zeros((0, size, size, 3), np.uint8)
        names = map(str, range(10)) if is_svhn else dataset.classes
        return ImageSet(pixels, labels[wanted], tuple(names))
