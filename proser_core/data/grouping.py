"""Images that belong together, such as the photos of one scene, as groups that no split divides."""

import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from proser_core.config.data import TABLES
from proser_core.data.decoded_photos import links_in
from proser_core.data.near_duplicates import NO_PAIRS, SIZE, Looks, components, links_by_looks, looks_of
from proser_core.data.readers.fingerprints import FileStatus, Fingerprints, status_of
from proser_core.data.readers.parquet import read_texts
from proser_core.data.stored import StoredImages
from proser_core.digests import digest_of
from proser_core.errors import ConfigError, DataError
from proser_core.naming import composed
from proser_core.store.files import absolute
from proser_core.titles import counted

COLUMNS = ("path", "group")


@dataclass(frozen=True)
class Grouping:
    """A rule as of `data.group_by` (may be empty), and whether near duplicates belong together too."""

    rule: str = ""
    by_looks: bool = True

    @property
    def is_table(self) -> bool:
        """Whether the rule is a file."""
        return self.rule.lower().endswith(TABLES)

    def fingerprints(self) -> Fingerprints:
        """The fingerprint of the table, if there is one, with a digest of its groups. Raises as `_table`, and DataError
        where it cannot be read."""
        if not self.is_table:
            return []
        status = status_of(self._table())
        return [(Path(status[0]).name, digest_of(_read_table(status)), status[2])]

    def groups(
        self, files: Sequence[FileStatus], folders: Sequence[Path], root: Path, decoded: Path | None
    ) -> np.ndarray:
        """int64[N]: the group of each image, 0, 1, ... in the order of the images; `folders` are those of their
        classes, and `decoded` is where `save_photos` has put them, if it has. Raises DataError where the rule does not
        fit the images, or one cannot be decoded."""
        near = NO_PAIRS
        if self.by_looks:
            near = links_in(decoded) if decoded else _links_of(tuple(files))
        return self.joined(near, [path for path, _, _ in files], folders, root)

    def joined(self, near: np.ndarray, paths: Sequence[str], folders: Sequence[Path], root: Path) -> np.ndarray:
        """The same as `groups`, for images whose pairs int64[P, 2] of near duplicates, or links of them, are known
        already."""
        linked = _linked(self._names(paths, folders, root)) if self.rule else NO_PAIRS
        return components(np.concatenate([near, linked]), len(paths))

    def _table(self) -> Path:
        """Raises ConfigError where the rule names a table that does not exist."""
        if not os.path.exists(self.rule):
            raise ConfigError(
                f"--data.group-by got {self.rule}, which does not exist; give a table that does, a number of folder "
                "levels or a regular expression"
            )
        return Path(self.rule)

    def _names(self, paths: Sequence[str], folders: Sequence[Path], root: Path) -> list[str | None]:
        """The name of each image's group by the rule; None where it says nothing of an image."""
        if self.is_table:
            return _from_table(paths, self._table(), root)
        if self.rule.isdecimal():
            return _from_folders(paths, folders, int(self.rule))
        names = [composed(os.path.basename(path)) for path in paths]
        found = [re.search(composed(self.rule), name) for name in names]
        if not any(found):
            raise DataError(
                f"data.group_by {self.rule!r} is found in no name of an image, such as {names[0]!r}; give a "
                "regular expression that finds the group's name, a folder level, or a table"
            )
        parts = [match and (match.groups(default="") or (match[0],)) for match in found]
        return ["\0".join(each) if each and any(each) else None for each in parts]


UNGROUPED = Grouping(by_looks=False)
"""Each image is a group."""


@lru_cache(maxsize=1)
def _links_of(files: tuple[FileStatus, ...]) -> np.ndarray:
    """The `links_by_looks` of image files; kept, because each part of each task of a run asks for them."""
    images = StoredImages.of_files([path for path, _, _ in files], SIZE)
    found = [looks_of(chunk) for chunk in images.batches(np.arange(len(images)), 1024)]
    return links_by_looks(Looks(*(np.concatenate(parts) for parts in zip(*found, strict=True))))


def _from_folders(paths: Sequence[str], folders: Sequence[Path], level: int) -> list[str | None]:
    """Names of folders below the class, down to a level; a name is one group, in whatever class it is."""
    of_class = zip(paths, map(absolute, folders), strict=True)
    below = [Path(os.path.relpath(path, folder)).parts[:-1][:level] for path, folder in of_class]
    if not any(len(parts) == level for parts in below):
        raise DataError(
            f"data.group_by is {level}, and no image lies {counted(level, 'folder')} below that of its class, as "
            f"{paths[0]} does not; give a level at which there are folders"
        )
    return ["/".join(parts) if len(parts) == level else None for parts in below]


def _from_table(paths: Sequence[str], table: Path, root: Path) -> list[str | None]:
    groups, top = _read_table(status_of(table)), absolute(root)
    names = [composed(os.path.relpath(path, top)) for path in paths]
    missing = [name for name in names if name not in groups]
    if missing:
        raise DataError(
            f"{table} has no row for {missing[0]}, one of {len(missing)} images without one; need the path of every "
            f"image below {root}, and its group"
        )
    return [groups[name] or None for name in names]  # an empty cell says nothing


@lru_cache(maxsize=1)
def _read_table(status: FileStatus) -> Mapping[str, str]:
    """Groups by path, accents as `composed` has them; kept, because each part of each task of a run asks for them."""
    table = Path(status[0])
    if table.suffix.lower() == ".parquet":
        return _by_path(table, zip(*read_texts(table, *COLUMNS), strict=True))
    try:
        with table.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if lacking := set(COLUMNS) - set(reader.fieldnames or ()):
                raise DataError(
                    f"{table} has no column {' and no '.join(sorted(lacking))}; need {' and '.join(COLUMNS)}"
                )
            return _by_path(table, _rows(table, reader))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{table} cannot be read ({error}); give a CSV file in UTF-8, or a Parquet file") from error


def _rows(table: Path, reader: "csv.DictReader[str]") -> Iterator[tuple[str, str]]:
    """Paths and groups. A row that ends before its group has an empty one."""
    for row in reader:
        if row["path"] is None:
            raise DataError(f"{table} has a row without a path in line {reader.line_num}; give it one, or remove it")
        yield row["path"], row["group"] or ""


def _by_path(table: Path, rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    groups: dict[str, str] = {}
    for written, group in rows:
        path = composed(written)
        if groups.setdefault(path, group.strip()) != group.strip():
            raise DataError(f"{table} has {path} in two groups, {groups[path]} and {group.strip()}; give each path one")
    return groups


def _linked(names: Sequence[str | None]) -> np.ndarray:
    """int64[P, 2]: each image with the one before it of the same name."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        if name is not None:
            rows.setdefault(composed(name), []).append(row)
    pairs = [pair for found in rows.values() for pair in pairwise(found)]
    return np.array(pairs, np.int64).reshape(-1, 2)
