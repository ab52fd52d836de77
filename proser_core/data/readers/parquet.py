"""Reader of Parquet files in the layout of the Hugging Face Hub.

One image column of struct {bytes, path}, integer label columns, and the class names in the
schema metadata under the key `huggingface`.

A row of a Parquet file is read with its whole row group, which may be the whole file. For images in
any order, `unpack` therefore writes them one after another, still encoded, and `index` says where each is.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from proser_core.data.decoding import decode_square
from proser_core.data.image_sets import ImageSet
from proser_core.data.readers.fingerprints import Fingerprints, fingerprints_of
from proser_core.data.stored import PLACE, StoredImages
from proser_core.errors import DamagedFileError, DataError, first_line

UNPACKED_AT_ONCE = 256  # rows


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
        """For people."""
        return " and ".join(f"{self.folder}/{self._hub_part(part)}-*.parquet" for part in ("train", "test"))

    def is_present(self, root: Path) -> bool:
        """Whether there is a file of the training images."""
        return bool(find_shards(root / self.folder, "train"))

    def packed_files(self, root: Path) -> list[Path]:
        """The files that `unpack` takes apart."""
        return find_shards(root / self.folder, "")

    def fingerprints(self, root: Path) -> Fingerprints:
        """Of each file."""
        return fingerprints_of(self.packed_files(root))

    def read(
        self,
        root: Path,
        part: str,
        *,
        size: int,
        classes: Collection[int] | None = None,
        count: int | None = None,
    ) -> ImageSet:
        """Decode the images of `classes` (default: all), leaving the others undecoded.

        Raises DataError for missing or damaged files, an undecodable image (named, with its row),
        and where the rows are not `count` in number.
        """
        shards, names, image_column = self._open(root, part)
        rows_seen, images, labels = 0, [], []
        for shard in shards:
            _check_columns(shard, image_column, self.label_column)
            table = _table(shard, [image_column, self.label_column])
            shard_labels = _labels(table, self.label_column, shard)
            rows_seen += len(shard_labels)
            wanted = _wanted(shard_labels, classes)
            encoded = _contents(table[image_column].combine_chunks())
            images += [
                decode_square(encoded[int(row)].as_py(), size, f"{shard}, row {row}") for row in np.flatnonzero(wanted)
            ]
            labels.append(shard_labels[wanted])
        _check_count(rows_seen, count, part, shards)
        stacked = np.stack(images) if images else np.zeros((0, size, size, 3), np.uint8)
        return ImageSet(stacked, np.concatenate(labels).astype(np.int64), names)

    def index(
        self,
        root: Path,
        part: str,
        *,
        size: int,
        classes: Collection[int] | None = None,
        count: int | None = None,
        unpacked: Path | None = None,
    ) -> ImageSet:
        """As `read`, with the images left encoded where `unpack` has put them, in the folder `unpacked`."""
        assert unpacked is not None, "images in Parquet files are unpacked before they are indexed"
        shards, names, _ = self._open(root, part)
        rows_seen, places, labels = 0, [], []
        for number, shard in enumerate(shards):
            _check_columns(shard, self.label_column)
            shard_labels = _labels(_table(shard, [self.label_column]), self.label_column, shard)
            offsets = np.load(_offsets(shard, unpacked))
            rows_seen += len(shard_labels)
            rows = np.flatnonzero(_wanted(shard_labels, classes))
            found = np.empty(len(rows), PLACE)
            found["file"], found["row"] = number, rows
            found["offset"], found["length"] = offsets[rows], offsets[rows + 1] - offsets[rows]
            places.append(found)
            labels.append(shard_labels[rows])
        _check_count(rows_seen, count, part, shards)
        files = np.array([os.fsencode(_unpacked(shard, unpacked)) for shard in shards], np.bytes_)
        stored = StoredImages(files, np.concatenate(places), size)
        return ImageSet(stored, np.concatenate(labels).astype(np.int64), names)

    def _open(self, root: Path, part: str) -> tuple[list[Path], tuple[str, ...], str]:
        """Shards of a part, names of its classes, and its image column."""
        shards = find_shards(root / self.folder, self._hub_part(part))
        if not shards:
            folder, wanted = root / self.folder, self._hub_part(part)
            raise DataError(f"{folder} holds no {wanted}*.parquet; give the directory above it as the data directory")
        schema = _schema(shards[0])
        names = _class_names(schema, self.label_column, shards[0])
        return shards, names, _image_column(schema, shards[0])

    def _hub_part(self, part: str) -> str:
        return self.hub_parts.get(part, part)


def unpack(shards: list[Path], folder: Path) -> None:
    """Write the encoded images of each shard one after another into `folder`, and where each begins.

    Memory does not grow with the file. Raises DataError for a damaged file, or where the disk is full.
    """
    try:
        for shard in shards:
            lengths = [0]
            with _unpacked(shard, folder).open("wb") as file:
                lengths += [file.write(encoded or b"") for encoded in encoded_rows(shard)]
            np.save(_offsets(shard, folder), np.cumsum(lengths, dtype=np.int64))
    except OSError as error:
        raise DataError(f"the images cannot be written to {folder} ({error}); give a storage with more room") from error


def _unpacked(shard: Path, folder: Path) -> Path:
    """Hidden, so that no manifest lists it: a set larger than memory would be hashed at every start."""
    return folder / f".{shard.name}"


def _offsets(shard: Path, folder: Path) -> Path:
    return folder / f"{shard.name}.offsets.npy"


def encoded_rows(shard: Path) -> Iterator[bytes | None]:
    """The encoded image of each row; memory does not grow with the file. Raises DataError for a damaged file."""
    pa = _arrow()
    column = _image_column(_schema(shard), shard)
    try:
        with pa.parquet.ParquetFile(shard, pre_buffer=False, buffer_size=1 << 20) as file:
            for batch in file.iter_batches(UNPACKED_AT_ONCE, columns=[column]):
                yield from _contents(batch.column(0)).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise _damaged(shard, error) from error


def has_images(shard: Path) -> bool:
    """Whether a Parquet file has a column of images, or is damaged and may have had one."""
    try:
        schema = _schema(shard)
    except DamagedFileError:
        return True
    return _find_image_column(schema) is not None


def count_rows(shard: Path) -> int:
    """Rows of a file. Raises DamagedFileError for a damaged file, DataError for one without images."""
    _image_column(_schema(shard), shard)
    return int(_arrow().parquet.read_metadata(shard).num_rows)


def _wanted(labels: np.ndarray, classes: Collection[int] | None) -> np.ndarray:
    return np.ones(len(labels), bool) if classes is None else np.isin(labels, list(classes))


def _check_count(rows: int, count: int | None, part: str, shards: list[Path]) -> None:
    if count is not None and rows != count:
        raise DataError(
            f"{shards[0].parent} has {rows} {part} images in {len(shards)} files; the data set has {count}. "
            "A file is missing or doubled: fetch the folder again"
        )


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


def _labels(table: Any, label_column: str, shard: Path) -> np.ndarray:
    """`table` is a pyarrow.Table."""
    column = table[label_column]
    if not _arrow().types.is_integer(column.type) or column.null_count:
        raise DataError(
            f"{shard} has {label_column!r} of type {column.type}, {column.null_count} missing; "
            "need a class number in each row"
        )
    return column.to_numpy()


def _schema(shard: Path) -> Any:
    pa = _arrow()
    try:
        return pa.parquet.read_schema(shard)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(shard, error) from error


def _table(shard: Path, columns: list[str]) -> Any:
    pa = _arrow()
    try:
        return pa.parquet.read_table(shard, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(shard, error) from error


def _damaged(shard: Path, error: Exception) -> DamagedFileError:
    return DamagedFileError(f"{shard} is not a whole Parquet file ({first_line(error)}); fetch it again")


def _check_columns(shard: Path, *names: str) -> None:
    columns = _schema(shard).names
    missing = [name for name in names if name not in columns]
    if missing:
        raise DataError(f"{shard} has no column {missing[0]!r}, which the first file has; it has {', '.join(columns)}")


def _class_names(schema: Any, label_column: str, shard: Path) -> tuple[str, ...]:
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


def _image_column(schema: Any, shard: Path) -> str:
    column = _find_image_column(schema)
    if column is None:
        raise DataError(
            f"{shard} has no image column; need a struct with a field 'bytes', or encoded images as binary, "
            f"got {', '.join(schema.names)}"
        )
    return column


def _find_image_column(schema: Any) -> str | None:
    """Structs as the Hub has them, else the first column of bytes."""
    types = _arrow().types
    for column in schema:
        if types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0:
            return column.name
    for column in schema:
        if types.is_binary(column.type) or types.is_large_binary(column.type):
            return column.name
    return None


def _contents(column: Any) -> Any:
    """The encoded images of an image column, a pyarrow.Array."""
    return column.field("bytes") if _arrow().types.is_struct(column.type) else column
