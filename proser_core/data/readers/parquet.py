"""Reader of Parquet files in the layout of the Hugging Face Hub.

One image column of struct {bytes, path}, integer label columns, and the class names in the
schema metadata under the key `huggingface`.

A row of a Parquet file is read with its whole row group, which may be the whole file. For images in
any order, `unpack` therefore writes them one after another, still encoded, and `index` says where each is.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from proser_core.data.decoding import decode_square
from proser_core.data.image_sets import ImageSet
from proser_core.data.readers.fingerprints import Fingerprints, fingerprints_of
from proser_core.data.readers.layout import Classes, Part, of_classes
from proser_core.data.stored import PLACE, StoredImages
from proser_core.errors import DamagedFileError, DataError, first_line
from proser_core.store.files import flush

UNPACKED_AT_ONCE = 256  # rows
IMAGE_COLUMNS = ("image", "img")
"""What the Hub calls columns of images, the preferred one first."""


def find_shards(folder: Path, part: str) -> list[Path]:
    """The Parquet files of one part, in order: train-00000-of-00004.parquet and so on."""
    return sorted(folder.glob(f"{part}*.parquet"))


@dataclass(frozen=True)
class ParquetLayout:
    """Parquet files in a folder of their own; `hub_parts` maps our names of parts to the Hub's, where they differ."""

    folder: str
    label_column: str = "label"
    hub_parts: Mapping[str, str] = field(default_factory=dict)
    name: str = "parquet"

    @property
    def needs(self) -> str:
        return " and ".join(f"{self.folder}/{self._hub_part(part)}-*.parquet" for part in ("train", "test"))

    def is_present(self, root: Path) -> bool:
        return bool(find_shards(root / self.folder, "train"))

    def packed_files(self, root: Path) -> list[Path]:
        """The files that `unpack` takes apart."""
        parts = [find_shards(root / self.folder, self._hub_part(part)) for part in ("train", "test")]
        return sorted(shard for shards in parts for shard in shards)

    def fingerprints(self, root: Path) -> Fingerprints:
        return fingerprints_of(self.packed_files(root))

    def read(self, root: Path, part: Part, *, size: int, classes: Classes = None, count: int | None = None) -> ImageSet:
        shards, names = self._open(root, part)
        column = _image_column(shards[0])
        rows, labels = self._rows(shards, len(names), part, classes, count)
        images = []
        for shard, wanted in zip(shards, rows, strict=True):
            encoded = _contents(_column(shard, column).combine_chunks())
            images += [decode_square(encoded[int(row)].as_py(), size, f"{shard}, row {row}") for row in wanted]
        return ImageSet(np.stack(images) if images else np.zeros((0, size, size, 3), np.uint8), labels, names)

    def index(
        self, root: Path, part: Part, unpacked: Path, *, size: int, classes: Classes = None, count: int | None = None
    ) -> ImageSet:
        """As `read`, with the images left encoded where `unpack` has put them, in the folder `unpacked`."""
        shards, names = self._open(root, part)
        rows, labels = self._rows(shards, len(names), part, classes, count)
        places = []
        for number, (shard, wanted) in enumerate(zip(shards, rows, strict=True)):
            offsets = np.load(_offsets(shard, unpacked))
            found = np.empty(len(wanted), PLACE)
            found["file"], found["row"] = number, wanted
            found["offset"], found["length"] = offsets[wanted], offsets[wanted + 1] - offsets[wanted]
            places.append(found)
        files = np.array([os.fsencode(_unpacked(shard, unpacked)) for shard in shards], np.bytes_)
        return ImageSet(StoredImages(files, np.concatenate(places), size), labels, names)

    def _open(self, root: Path, part: Part) -> tuple[list[Path], tuple[str, ...]]:
        """Shards of a part and names of its classes."""
        folder, wanted = root / self.folder, self._hub_part(part)
        shards = find_shards(folder, wanted)
        if not shards:
            raise DataError(f"{folder} holds no {wanted}*.parquet; give the directory above it as the data directory")
        return shards, _class_names(shards[0], self.label_column)

    def _rows(
        self, shards: list[Path], num_classes: int, part: Part, classes: Classes, count: int | None
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """The rows of `classes` in each shard, and their labels int64[N]. Raises DataError where the shards do not have
        `count` rows, or a label has no class."""
        labels = [_labels(shard, self.label_column) for shard in shards]
        found = sum(map(len, labels))
        if count is not None and found != count:
            raise DataError(
                f"{shards[0].parent} has {found} {part} images in {len(shards)} files; the data set has {count}. "
                "A file is missing or doubled: fetch the folder again"
            )
        for shard, each in zip(shards, labels, strict=True):
            if len(each) and not 0 <= each.min() <= each.max() < num_classes:
                raise DataError(
                    f"{shard} has labels from {each.min()} to {each.max()}, and names {num_classes} classes; "
                    f"need labels from 0 to {num_classes - 1}: write the file again"
                )
        rows = [np.flatnonzero(of_classes(each, classes)) for each in labels]
        wanted = [each[own] for each, own in zip(labels, rows, strict=True)]
        return rows, np.concatenate(wanted).astype(np.int64)

    def _hub_part(self, part: str) -> str:
        return self.hub_parts.get(part, part)


def unpack(shards: list[Path], folder: Path) -> None:
    """Write the encoded images of each shard one after another into `folder`, and where each begins.

    Memory does not grow with the file. Raises DataError for a damaged file, OSError where the disk is full.
    """
    for shard in shards:
        lengths = [0]
        with _unpacked(shard, folder).open("wb") as file:
            lengths += [file.write(encoded or b"") for encoded in encoded_rows(shard)]
        flush(_unpacked(shard, folder))
        np.save(_offsets(shard, folder), np.cumsum(lengths, dtype=np.int64))


def is_whole(shards: list[Path], folder: Path) -> bool:
    """Whether the images that `unpack` has written are still there, by the sizes of their files."""
    sizes = [path.stat().st_size if (path := _unpacked(shard, folder)).is_file() else 0 for shard in shards]
    return sizes == [np.load(_offsets(shard, folder), mmap_mode="r")[-1] for shard in shards]


def _unpacked(shard: Path, folder: Path) -> Path:
    """Hidden, so that no manifest lists it: a set larger than memory would be hashed at every start."""
    return folder / f".{shard.name}"


def _offsets(shard: Path, folder: Path) -> Path:
    return folder / f"{shard.name}.offsets.npy"


def encoded_rows(shard: Path) -> Iterator[bytes | None]:
    """The encoded image of each row; memory does not grow with the file. Raises DataError for a damaged file."""
    column = _image_column(shard)
    with _parquet(shard) as parquet, parquet.ParquetFile(shard, pre_buffer=False, buffer_size=1 << 20) as file:
        for batch in file.iter_batches(UNPACKED_AT_ONCE, columns=[column]):
            yield from _contents(batch.column(0)).to_pylist()


def has_images(shard: Path) -> bool:
    """Whether a Parquet file has columns that may be of images, or is damaged and may have had one."""
    try:
        return bool(_image_columns(shard))
    except DamagedFileError:
        return True


def count_rows(shard: Path) -> int:
    """Rows of a file. Raises DamagedFileError for a damaged file, DataError for one without a column of images, or with
    several."""
    _image_column(shard)
    with _parquet(shard) as parquet:
        return int(parquet.read_metadata(shard).num_rows)


def read_texts(table: Path, *names: str) -> list[list[str]]:
    """Columns of a file as text, an empty one where there is none. Raises DataError for a file that lacks a column."""
    if lacking := set(names) - set(_schema(table).names):
        raise DataError(f"{table} has no column {' and no '.join(sorted(lacking))}; need {' and '.join(names)}")
    return [["" if value is None else str(value) for value in _column(table, name).to_pylist()] for name in names]


def _arrow() -> Any:
    """pyarrow, for those who read Parquet. Raises DataError where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(
            f"Parquet files are read by pyarrow, which cannot be imported here ({error}); install it, "
            "or carry the prepared images (`proser job --with-task`)"
        ) from error
    return pyarrow


@contextmanager
def _parquet(shard: Path) -> Iterator[Any]:
    """pyarrow.parquet; its errors, and those of names and pipes, become a DamagedFileError that names the file."""
    pa = _arrow()
    try:
        if shard.exists() and not shard.is_file():  # a pipe might never end
            raise DamagedFileError(f"{shard} is no regular file; remove it")
        yield pa.parquet
    except UnicodeEncodeError as error:
        raise DamagedFileError(f"{shard} has a name that is not UTF-8; rename it") from error
    except (pa.ArrowException, OSError) as error:
        raise DamagedFileError(f"{shard} is not a whole Parquet file ({first_line(error)}); fetch it again") from error


def _schema(shard: Path) -> Any:
    with _parquet(shard) as parquet:
        return parquet.read_schema(shard)


def _column(shard: Path, name: str) -> Any:
    """A column of a file, as pyarrow.ChunkedArray."""
    columns = _schema(shard).names
    if name not in columns:
        raise DataError(f"{shard} has no column {name!r}, which the first file has; it has {', '.join(columns)}")
    with _parquet(shard) as parquet:
        return parquet.read_table(shard, columns=[name])[name]


def _labels(shard: Path, label_column: str) -> np.ndarray:
    column = _column(shard, label_column)
    if not _arrow().types.is_integer(column.type) or column.null_count:
        raise DataError(
            f"{shard} has {label_column!r} of type {column.type}, {column.null_count} missing; "
            "need a class number in each row"
        )
    return column.to_numpy()


def _class_names(shard: Path, label_column: str) -> tuple[str, ...]:
    schema = _schema(shard)
    if label_column not in schema.names:
        raise DataError(f"{shard} has no column {label_column!r}; it has {', '.join(schema.names)}")
    try:
        info = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        names = info["info"]["features"][label_column]["names"]
    except (ValueError, KeyError, TypeError):
        names = None
    if not names:
        raise DataError(
            f"{shard} does not name the classes of {label_column!r}; need them in the schema metadata, "
            "as the Hugging Face Hub writes them"
        )
    return tuple(names)


def _image_column(shard: Path) -> str:
    columns = _image_columns(shard)
    if len(columns) > 1:
        raise DataError(
            f"{shard} may have its images in {' or '.join(columns)}; need one such column, or one that is called "
            f"{' or '.join(IMAGE_COLUMNS)}: rename the one with the images"
        )
    if not columns:
        raise DataError(
            f"{shard} has no image column; need a struct with a field 'bytes', or encoded images as binary, "
            f"got {', '.join(_schema(shard).names)}"
        )
    return columns[0]


def _image_columns(shard: Path) -> list[str]:
    """The one that has a usual name, else all structs as the Hub has them, else all columns of bytes."""
    types, schema = _arrow().types, _schema(shard)
    structs = [each.name for each in schema if types.is_struct(each.type) and each.type.get_field_index("bytes") >= 0]
    binary = [each.name for each in schema if types.is_binary(each.type) or types.is_large_binary(each.type)]
    named = [name for name in IMAGE_COLUMNS if name in (*structs, *binary)]
    return named[:1] or structs or binary


def _contents(column: Any) -> Any:
    """The encoded images of an image column, a pyarrow.Array."""
    return column.field("bytes") if _arrow().types.is_struct(column.type) else column
