"""Reader of Tiny-ImageNet in its published layout: 200 classes of 64x64 JPEG files, some of them grey.

    tiny-imagenet-200/wnids.txt, words.txt
    tiny-imagenet-200/train/WNID/images/*.JPEG
    tiny-imagenet-200/val/images/*.JPEG, val/val_annotations.txt     used as test: they are labelled
    tiny-imagenet-200/test/images/*.JPEG                             without labels; see odin.py

Classes are numbered by their sorted WNIDs, as torchvision's ImageFolder numbers them.
"""

from collections import Counter
from collections.abc import Collection
from pathlib import Path

import numpy as np

from proser_core.data.image_sets import ImageSet
from proser_core.data.readers.fingerprints import Fingerprints, files_fingerprint, folders_fingerprint, status_of
from proser_core.data.readers.layout import Classes, Part
from proser_core.data.readers.walking import image_paths
from proser_core.data.stored import StoredImages
from proser_core.errors import DataError
from proser_core.store.files import absolute

FOLDER = "tiny-imagenet-200"
ANNOTATIONS = "val/val_annotations.txt"
PARTS = ("train", "val")


class TinyImageNetLayout:
    """The published folder."""

    name = "published"
    needs = f"{FOLDER}/ with wnids.txt, words.txt, train/WNID/images/ and {ANNOTATIONS}"

    def is_present(self, root: Path) -> bool:
        return (root / FOLDER / "train").is_dir()

    def fingerprints(self, root: Path) -> Fingerprints:
        """Fingerprints of the files with labels and names, and of the folders of images: 110,000 files take seconds to
        look at."""
        folder = Path(absolute(root / FOLDER))
        texts = [str(folder / name) for name in ("wnids.txt", "words.txt", ANNOTATIONS) if (folder / name).is_file()]
        labels = files_fingerprint("labels", map(status_of, texts), folder)
        return [labels, *(folders_fingerprint(folder / part) for part in PARTS)]

    def read(self, root: Path, part: Part, *, size: int, classes: Classes = None, count: int | None = None) -> ImageSet:
        """As `Layout.read`; each class must have its share of `count` images."""
        folder = root / FOLDER
        wnids = sorted(_text(folder / "wnids.txt").split())
        wanted = range(len(wnids)) if classes is None else sorted(classes)
        paths = _train_paths(folder, wnids, wanted) if part == "train" else _val_paths(folder, wnids, wanted)
        for number in wanted:
            if count is not None and len(paths[number]) * len(wnids) != count:
                raise DataError(
                    f"{folder} has {len(paths[number])} {part} images of {wnids[number]}; the data set has "
                    f"{count // len(wnids)} of each class. Unpack it again"
                )
        files = [path for number in wanted for path in paths[number]]
        labels = np.repeat(np.array(wanted, np.int64), [len(paths[number]) for number in wanted])
        return ImageSet(StoredImages.of_files(files, size).decoded(), labels, _names(folder, wnids))


def _names(folder: Path, wnids: list[str]) -> tuple[str, ...]:
    """The first word for each class, with its WNID where another class has the same."""
    rows = [line.partition("\t") for line in _text(folder / "words.txt").splitlines()]
    words = {wnid: text.split(",")[0].strip() for wnid, _, text in rows}
    named = [words.get(wnid, "") for wnid in wnids]
    counts = Counter(named)
    return tuple(
        name if name and counts[name] == 1 else f"{name} {wnid}".strip()
        for wnid, name in zip(wnids, named, strict=True)
    )


def _train_paths(folder: Path, wnids: list[str], wanted: Collection[int]) -> dict[int, list[str]]:
    found = {}
    for number in wanted:
        place = folder / "train" / wnids[number] / "images"
        if not place.is_dir():
            raise DataError(f"{place} is missing, and {folder / 'wnids.txt'} names {wnids[number]}. Unpack it again")
        found[number] = image_paths(place)
    return found


def _val_paths(folder: Path, wnids: list[str], wanted: Collection[int]) -> dict[int, list[str]]:
    """Paths of validation images by class, from the second column of val_annotations.txt. A reader who overlooks it
    finds no unknown image at all."""
    numbers = {wnid: number for number, wnid in enumerate(wnids)}
    found: dict[int, list[str]] = {number: [] for number in wanted}
    for line in _text(folder / ANNOTATIONS).splitlines():
        cells = line.split("\t")
        if len(cells) < 2 or cells[1] not in numbers:
            raise DataError(
                f"{folder / ANNOTATIONS} has the line {line[:80]!r}; need a file name, a tab and a WNID of wnids.txt"
            )
        if numbers[cells[1]] in found:
            found[numbers[cells[1]]].append(str(folder / "val" / "images" / cells[0]))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read ({error}); Tiny-ImageNet needs it. Unpack it again") from error
