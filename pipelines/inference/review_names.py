"""Named images of a review as new classes in a folder of images."""

import csv
import itertools
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from proser_core.data.decoding import Failure
from proser_core.data.readers.fingerprints import status_of
from proser_core.data.readers.listed_folder import FOLDER_PARTS
from proser_core.data.readers.walking import ENDINGS, image_paths
from proser_core.digests import sha256_of
from proser_core.errors import ConfigError, DataError
from proser_core.naming import as_spelt, check_class_names, composed
from proser_core.store.files import atomic_path, disk_full_errors

PAGE, IMAGES, NAMES = "index.html", "images.csv", "names.csv"
IMAGE_COLUMNS = ("image", "group", "typical", "nearest_class", "score", "p_value", "path")
NEEDED = ("group", "name")  # of a table written by hand
GIVEN = ("name", "without", "also")  # what a person fills in


def check_replaceable(folder: Path) -> None:
    """Raises ConfigError where a new review would replace anything but an earlier one without a name."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    images, names = folder / IMAGES, folder / NAMES
    if not images.is_file() or not images.read_bytes().startswith(",".join(IMAGE_COLUMNS).encode()):
        raise ConfigError(f"--output got {folder}, which exists and is no earlier review; give a new folder")
    if names.is_file() and any(row.get(column) for row in _read_table(names, NEEDED) for column in GIVEN):
        raise ConfigError(
            f"--output got {folder}, and a new review would replace the names in {names}; give another folder, or "
            f"remove this one once `proser review --apply` has copied its images"
        )


def read_named(folder: Path) -> dict[str, list[Path]]:
    """The files, by class, of the groups that names.csv names: without what it leaves out, with what it adds. Raises
    DataError for a folder without a review, for rows that do not belong to it, and for an image with two names."""
    images, names = _read_table(folder / IMAGES, IMAGE_COLUMNS), _read_table(folder / NAMES, NEEDED)
    by_number = {row["image"]: row for row in images}
    groups = {row["group"] for row in images}
    sizes = Counter(row["group"] for row in images if row["typical"] == "yes")
    files: dict[str, list[Path]] = {}
    name_of: dict[str, str] = {}
    group_name: dict[str, str] = {}
    for line in names:
        name = composed(line["name"].strip())
        if not name:
            continue
        if group_name.setdefault(line["group"], name) != name:
            raise DataError(
                f"{folder / NAMES} names group {line['group']} twice, {group_name[line['group']]!r} and {name!r}; "
                "keep one row of a group"
            )
        if line["group"] not in groups:
            raise DataError(
                f"{folder / NAMES} names a group {line['group']}, and {IMAGES} has none; keep the rows as the review "
                "wrote them"
            )
        if line.get("images") not in (None, "", size := str(sizes[line["group"]])):
            raise DataError(
                f"{folder / NAMES} has {line['images']} images in group {line['group']}, and {IMAGES} has {size}, so "
                f"that it is of an earlier review; name the groups in {PAGE} as it is now"
            )
        taken = _taken(line, by_number, folder / NAMES)
        twice = next((number for number in taken if name_of.setdefault(number, name) != name), None)
        if twice is not None:
            raise DataError(
                f"{folder / NAMES} gives image {twice} two names, {name_of[twice]!r} and {name!r}; take its number "
                "out of the column also, or put it into without of the other group"
            )
        files.setdefault(name, []).extend(Path(by_number[number]["path"]) for number in taken)
    return files


def _taken(line: Mapping[str, str], images: Mapping[str, Mapping[str, str]], path: Path) -> list[str]:
    """Numbers of the images of a row of names.csv. Raises DataError for one that the review does not have."""
    mine = [number for number, row in images.items() if row["group"] == line["group"] and row["typical"] == "yes"]
    without, also = ((line.get(column) or "").split() for column in ("without", "also"))
    stray = next((number for number in (*without, *also) if number not in images), None)
    if stray is not None:
        raise DataError(f"{path} has an image {stray} in group {line['group']}, and {IMAGES} has none")
    return list(dict.fromkeys([*(number for number in mine if number not in without), *also]))


def _read_table(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    if not path.is_file():
        raise DataError(f"{path} was not found; give the folder that `proser review MODEL PATH` wrote")
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            table = csv.DictReader(file)
            rows = list(table)
    except (OSError, csv.Error) as error:
        raise DataError(f"{path} cannot be read ({error}); give the table that the review wrote, in CSV") from error
    for number, row in enumerate(rows, 2):
        missing = [column for column in columns if row.get(column) is None]
        if missing:
            line = number if missing[0] in (table.fieldnames or ()) else 1
            raise DataError(
                f"{path} has no column {missing[0]!r} in line {line}; need {', '.join(columns)}, separated by commas"
            )
    return rows


@dataclass
class Added:
    """What was added: by class, how many images were copied and how many were there already; and the files that are
    gone, cannot be read or have a name that no run would see."""

    copied: dict[str, int] = field(default_factory=dict)
    there: dict[str, int] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


def add_images(files: dict[str, list[Path]], images: Path, *, dry_run: bool = False) -> Added:
    """Copy files into the folder of their class below `images`, or below its folder train/ where it has one. A file
    that its class has already, in any part and by any name, is not copied again; one that cannot be read is a failure.
    Raises DataError, before anything is copied, for names that are no folders of classes, and for new classes where
    val/ or test/ have their own images."""
    parts = [images / part for part in FOLDER_PARTS if (images / part).is_dir()]
    root = images / FOLDER_PARTS[0] if parts else images
    folders = [path.name for path in root.iterdir() if path.is_dir()] if root.is_dir() else []
    files = {as_spelt(name, folders): paths for name, paths in files.items()}
    check_names(files, folders)
    for name in files:
        _check_folder(root / name)
    _check_parts(files, parts)
    added = Added()
    digests = {name: _digests([place / name for place in parts or [images]], added.failures) for name in files}
    for name, paths in files.items():
        folder, there = root / name, digests[name]
        added.copied[name] = added.there[name] = 0
        for path in paths:
            if not os.path.lexists(path):
                added.failures.append(Failure(str(path), f"{path} is gone"))
                continue
            if path.name.startswith(".") or not path.name.lower().endswith(ENDINGS):
                reason = f"{path} is hidden or ends with none of {', '.join(ENDINGS)}, so that no run would see it"
                added.failures.append(Failure(str(path), f"{reason}; copy it to {folder} under another name"))
                continue
            digest = _digest(path)
            if isinstance(digest, Failure):
                added.failures.append(digest)
                continue
            if digest in there:
                added.there[name] += 1
                continue
            there.add(digest)
            added.copied[name] += 1
            if not dry_run:
                _copy(path, folder, digest)
    return added


def _digests(folders: Sequence[Path], failures: list[Failure]) -> set[str]:
    """The digests of all images below the folders that exist; what cannot be read is added to the failures."""
    found = [_digest(path) for folder in folders if folder.is_dir() for path in image_paths(folder)]
    failures += [each for each in found if isinstance(each, Failure)]
    return {each for each in found if isinstance(each, str)}


def _digest(path: Path | str) -> str | Failure:
    try:
        status_of(path)  # reading a pipe might never end
        return sha256_of(path)
    except DataError as error:
        return Failure(str(path), str(error))
    except OSError as error:
        return Failure(str(path), f"{path} cannot be read ({error.strerror}); repair or remove it")


def check_names(names: Iterable[str], there: Sequence[str]) -> None:
    """Raises DataError for a name that no class may have, that is no single folder, or that differs from another one,
    or from a folder that is there, in how accents are stored; and for a new one that does so in case alone."""
    given = list(names)
    check_class_names(given)
    bad = next(
        (name for name in given if name.startswith(".") or {"/", "\\"} & set(name) or name in FOLDER_PARTS), None
    )
    if bad is not None:
        raise DataError(
            f"the name {bad!r} is not a folder of a class; need one without / or \\ that does not begin with a dot and "
            f"is not one of {', '.join(FOLDER_PARTS)}"
        )
    twin = _twin(given, there)
    if twin is not None:
        raise DataError(
            f"{twin[0]!r} and {twin[1]!r} differ in upper and lower case alone, or in how their accents are stored "
            "(Unicode NFC or NFD); need one name for one class"
        )


def _check_folder(folder: Path) -> None:
    """Raises DataError where no folder can be made because something else has its name, or the name is too long."""
    try:
        folder.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise DataError(f"{folder} cannot be made ({error.strerror}); give the group another name") from error
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder; rename it, or give the group another name")


def _check_parts(names: Iterable[str], parts: Sequence[Path]) -> None:
    for part in parts:
        if part.name == FOLDER_PARTS[0]:
            continue
        new = next((name for name in names if not (part / name).is_dir() or not any(image_paths(part / name))), None)
        if new is not None:
            raise DataError(
                f"{part} has no folder {new!r} with an image, and every part needs every class; put images of the "
                "class there that are not in the review, or give a folder without parts"
            )


def _twin(given: Sequence[str], there: Sequence[str]) -> tuple[str, str] | None:
    """A name and one that looks like it. Folders that are there may differ in case: letters are classes, too."""
    for name, other in itertools.product(given, (*given, *there)):
        looks_same = composed(name) == composed(other)
        differs_in_case = name not in there and composed(name).casefold() == composed(other).casefold()
        if name != other and (looks_same or differs_in_case):
            return other, name
    return None


def _copy(path: Path, folder: Path, digest: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    other = f"{path.stem[:50]}-{digest[:8]}"  # of 255 bytes at most
    numbered = (f"{other}-{number}{path.suffix}" for number in itertools.count(2))
    names = itertools.chain([path.name, f"{other}{path.suffix}"], numbered)
    # not of another image, of a copy that was edited, or of a link to an image that is gone
    target = next(folder / name for name in names if not os.path.lexists(folder / name))
    with disk_full_errors(folder), atomic_path(target) as temporary:
        shutil.copyfile(path, temporary)
