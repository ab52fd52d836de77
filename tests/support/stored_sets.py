"""The digits as an image folder and as Parquet files: one small set in every layout that streams."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from encoded_images import encode

from proser_core.data.catalogue import Source
from proser_core.data.readers import digits
from proser_core.data.readers.parquet import ParquetLayout

PARQUET = Source(
    "digits_parquet", 10, {"train": digits.NUM_TRAIN, "test": digits.NUM_TEST}, (ParquetLayout("digits_parquet"),)
)


def write_folder(root: Path, size: int, most: Mapping[str, int] | None = None) -> Path:
    """ROOT/train/CLASS/*.png and ROOT/test/CLASS/*.png; of each class `most[part]` images, where that is given."""
    for part in ("train", "test"):
        loaded = digits.read(part, size)
        for label in np.unique(loaded.labels).tolist():
            folder = root / part / f"digit {label}"
            folder.mkdir(parents=True)
            rows = np.flatnonzero(loaded.labels == label)
            for row in rows[: most[part] if most else len(rows)].tolist():
                (folder / f"{row:04}.png").write_bytes(encode(loaded.images[row]))
    return root


def write_parquet(root: Path, size: int, shards: int = 2) -> Path:
    """ROOT/digits_parquet/*.parquet as the Hugging Face Hub writes them, in row groups of 100."""
    features = {"label": {"names": [str(label) for label in range(10)], "_type": "ClassLabel"}}
    image_type = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    (root / PARQUET.name).mkdir(parents=True)
    for part in ("train", "test"):
        loaded = digits.read(part, size)
        for number, rows in enumerate(np.array_split(np.arange(len(loaded)), shards)):
            encoded = [{"bytes": encode(loaded.images[row]), "path": None} for row in rows]
            table = pa.table({"image": pa.array(encoded, image_type), "label": loaded.labels[rows]})
            table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
            path = root / PARQUET.name / f"{part}-{number:05}-of-{shards:05}.parquet"
            pq.write_table(table, path, row_group_size=100)
    return root
