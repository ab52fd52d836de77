"""Reader of Parquet files in the layout of the Hugging Face Hub.

One image column of struct {bytes, path}, integer label columns, and the class names in the
schema metadata under the key `huggingface`.
"""

import io
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from proser_core.data.image_sets import ImageSet, to_rgb_square
from proser_core.errors import DataError, first_line


def find_shards(folder: Path, part: str) -> list[Path]:
    """The Parquet files of one part, in order: train-00000-of-00004.parquet and so on."""
    return sorted(folder.glob(f"{part}*.parquet"))


def read(
    folder: Path,
    part: str,
    label_column: str,
    *,
    size: int,
    classes: Collection[int] | None = None,
    count: int | None = None,
) -> ImageSet:
    """Decode the images of `classes` (default: all), leaving the others undecoded.

    Raises DataError for missing or damaged files, an undecodable image (named, with its row),
    and where the rows are not `count` in number.
    """
    shards = find_shards(folder, part)
    if not shards:
        raise DataError(f"{folder} holds no {part}*.parquet; give the directory above it as the data directory")
    schema = _schema(shards[0])
    names = _class_names(schema, label_column, shards[0])
    image_column = _image_column(schema, shards[0])
    rows_seen, images, labels = 0, [], []
    for shard in shards:
        _check_columns(shard, image_column, label_column)
        table = _table(shard, [image_column, label_column])
        shard_labels = _labels(table, label_column, shard)
        rows_seen += len(shard_labels)
        wanted = np.ones(len(shard_labels), bool) if classes is None else np.isin(shard_labels, list(classes))
        encoded = table[image_column].combine_chunks().field("bytes")
        images += [_decode(encoded[int(row)].as_py(), size, shard, int(row)) for row in np.flatnonzero(wanted)]
        labels.append(shard_labels[wanted])
    if count is not None and rows_seen != count:
        raise DataError(
            f"{folder} has {rows_seen} {part} images in {len(shards)} files; the data set has {count}. "
            "A file is missing or doubled: fetch the folder again"
        )
    stacked = np.stack(images) if images else np.zeros((0, size, size, 3), np.uint8)
    return ImageSet(stacked, np.concatenate(labels).astype(np.int64), names)


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
        raise DataError(_damaged(shard, error)) from error


def _table(shard: Path, columns: list[str]) -> Any:
    pa = _arrow()
    try:
        return pa.parquet.read_table(shard, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise DataError(_damaged(shard, error)) from error


def _damaged(shard: Path, error: Exception) -> str:
    return f"{shard} is not a whole Parquet file ({first_line(error)}); fetch it again"


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
    types = _arrow().types
    for column in schema:
        if types.is_struct(column.type) and column.type.get_field_index("bytes") >= 0:
            return column.name
    raise DataError(f"{shard} has no image column; need a struct with a field 'bytes', got {', '.join(schema.names)}")


def _decode(encoded: bytes | None, size: int, shard: Path, row: int) -> np.ndarray:
    try:
        return to_rgb_square(Image.open(io.BytesIO(encoded or b"")), size)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise DataError(f"{shard}, row {row}: the image cannot be decoded ({error}); mend or remove the row") from error
