"""Reader of image folders: ROOT/CLASS/*, or ROOT/train/CLASS/* with ROOT/val/ and ROOT/test/; any depth below a class.

What lies there is found by `ListedFolder`. Without val/ the preparation draws one. Classes are numbered in the order of
their sorted names.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from proser_core.data.decoded_photos import DecodedPhotos
from proser_core.data.grouping import UNGROUPED, Grouping
from proser_core.data.image_sets import ImageSet
from proser_core.data.readers.fingerprints import Fingerprints, files_fingerprint
from proser_core.data.readers.layout import Classes, Part, of_classes
from proser_core.data.readers.listed_folder import FOLDER_PARTS, Listed, ListedFolder, Listing, unread_endings
from proser_core.data.readers.walking import ENDINGS
from proser_core.data.stored import StoredImages
from proser_core.naming import check_class_names
from proser_core.titles import counted


@dataclass(frozen=True)
class FolderLayout:
    """A folder of images per class, whatever the classes are; no group of the `grouping` is divided. `listed` lists its
    root once for all that share it."""

    grouping: Grouping = UNGROUPED
    listed: ListedFolder | None = None
    name = "folder"
    needs = "a folder of images for each class: CLASS/*, or train/CLASS/*, next to val/ and test/ if there are any"

    def is_present(self, root: Path) -> bool:
        return self._at(root).holds_images

    def drawn(self, root: Path) -> tuple[str, ...]:
        """The parts that have no folder of their own, and are drawn from the training images."""
        return self._at(root).drawn

    def listing(self, root: Path) -> Listing:
        """All image files, whatever is in them and however few there are. Raises DataError as `class_names`, and for a
        folder that cannot be read."""
        folders = self._at(root)
        places = [
            (part, label, folders.parts[part] / name)
            for part in FOLDER_PARTS
            if part in folders.parts
            for label, name in enumerate(folders.class_names)
        ]
        files = [Listed(path, place, label, part) for part, label, place in places for path in folders.paths(place)]
        return Listing(folders.class_names, files, folders.drawn, folders.unread())

    def class_names(self, root: Path) -> tuple[str, ...]:
        """The classes by number. Raises DataError for parts with different classes, ambiguous folders, and names that
        no prediction could give."""
        names = self._at(root).class_names
        check_class_names(names)
        return names

    def fingerprints(self, root: Path) -> Fingerprints:
        """A fingerprint of each class in each part that has a folder."""
        folders = self._at(root)
        return self.grouping.fingerprints() + [
            files_fingerprint(f"{part}/{name}", folders.images(part, name), root)
            for part in FOLDER_PARTS
            if part in folders.parts
            for name in folders.class_names
        ]

    def read(self, root: Path, part: Part, *, size: int, classes: Classes = None, count: int | None = None) -> ImageSet:
        """The same as `index`, with the images decoded."""
        stored = self.index(root, part, size=size, classes=classes)
        assert isinstance(stored.images, StoredImages)
        return replace(stored, images=stored.images.decoded(), contents=stored.images.contents)

    def index(
        self, root: Path, part: Part, *, size: int, classes: Classes = None, decoded: Path | None = None
    ) -> ImageSet:
        """The images of `classes`, on disk: as they are, or where `save_photos` has put all files of the `listing`, in
        the folder `decoded`. Raises DataError for a class without one, where the grouping does not fit the images, and
        where it is by looks and one of any class cannot be decoded."""
        folders = self._at(root)
        grouped = folders.grouped(self.grouping, decoded)
        rows = np.flatnonzero((grouped.parts == part) & of_classes(grouped.labels, classes))
        if decoded is not None:
            images: StoredImages = DecodedPhotos.of(decoded, size)[rows]
        else:
            images = StoredImages.of_files([grouped.paths[row] for row in rows], size)
        return ImageSet(images, grouped.labels[rows], folders.class_names, grouped.groups[rows])

    def _at(self, root: Path) -> ListedFolder:
        return self.listed if self.listed and self.listed.root == root else ListedFolder(root)


def of_no_class(root: Path) -> str:
    """What to say of a folder that has images, but none in the folder of a class, or none of a format that is read;
    empty where it has none."""
    found = root.iterdir() if root.is_dir() else ()
    count = sum(each.name.lower().endswith(ENDINGS) and each.is_file() for each in found)
    if count:
        advice = f"make {root}/CLASS/ for each class, and move its images there"
        return f"{root} holds {counted(count, 'image')}, but none in a folder of a class; {advice}"
    if endings := ", ".join(unread_endings(root)):
        advice = "convert them to JPEG or PNG, in a folder for each class"
        return f"{root} has images only of formats that are not read ({endings}); {advice}"
    return ""
