"""Named images of a review as new classes in a folder of images."""

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proser_core.data.readers.image_files import Failure
from proser_core.data.readers.image_folders import files_below
from proser_core.errors import DataError
from proser_core.naming import check_class_names
from proser_core.store.files import atomic_path, disk_full_errors

PARTS = ("train", "val", "test")
"""Folders of parts, of which new images go into the first."""


@dataclass
class Added:
    """By class, how many images were copied and how many were there already; and the files that are gone."""

    copied: dict[str, int] = field(default_factory=dict)
    there: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


def add_images(files: dict[str, list[Path]], images: Path, *, dry_run: bool = False) -> Added:
    """Copy files into the folder of their class below `images`, or below its folder train/ where it has one. A file
    that its class has already, in any part and by any name, is not copied again. Raises DataError, before anything is
    copied, for names that are no folders of classes, and for new classes where val/ or test/ have their own images."""
    parts = [images / part for part in PARTS if (images / part).is_dir()]
    root = images / PARTS[0] if parts else images
    check_names(files, root)
    _check_parts(files, parts)
    added = Added()
    for name, paths in files.items():
        folder = root / name
        places = [place / name for place in parts or [images] if (place / name).is_dir()]
        there = {_digest(Path(file.path)) for place in places for file in files_below(str(place))}
        added.copied[name] = added.there[name] = 0
        for path in paths:
            if not path.is_file():
                added.failures.append(Failure(str(path), f"{path} is gone, or a row of a Parquet file"))
                continue
            digest = _digest(path)
            if digest in there:
                added.there[name] += 1
                continue
            there.add(digest)
            added.copied[name] += 1
            if not dry_run:
                _copy(path, folder, digest)
    return added


def check_names(names: Iterable[str], root: Path) -> None:
    """Raises DataError for a name that no class may have, that is no single folder, or that differs from another one,
    or from a folder that is there, in case alone."""
    given = list(names)
    check_class_names(given)
    bad = next((name for name in given if name.startswith(".") or {"/", "\\"} & set(name) or name in PARTS), None)
    if bad is not None:
        raise DataError(
            f"the name {bad!r} is no folder of a class; need one without / or \\ that begins without a dot and is none "
            f"of {', '.join(PARTS)}"
        )
    there = [path.name for path in root.iterdir() if path.is_dir()] if root.is_dir() else []
    twin = _twin([*dict.fromkeys([*given, *there])])
    if twin is not None:
        raise DataError(
            f"{twin[0]!r} and {twin[1]!r} differ in upper and lower case alone; need one name for one class"
        )


def _check_parts(names: Iterable[str], parts: Sequence[Path]) -> None:
    for part in parts:
        new = next((name for name in names if part.name != PARTS[0] and not (part / name).is_dir()), None)
        if new is not None:
            raise DataError(
                f"{part} has no folder {new!r}, and every part needs every class; make it, with images of the class "
                "that are not in the review, or give a folder without parts"
            )


def _twin(names: Sequence[str]) -> tuple[str, str] | None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            return other, name
    return None


def _copy(path: Path, folder: Path, digest: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / path.name
    if target.exists():  # another image of this name
        target = folder / f"{path.stem}-{digest[:8]}{path.suffix}"
    with disk_full_errors(folder), atomic_path(target) as temporary:
        shutil.copyfile(path, temporary)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
