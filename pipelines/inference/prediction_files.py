"""Files of predictions, one row per image, written part by part: Parquet, CSV or JSON lines.

Columns: image, label, unknown, unknown_score, nearest_class, p_CLASS ..., p_unknown, and error: why the image was
skipped, else empty. Numbers in text are rounded as the server's are; Parquet has all their digits.
"""

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from pipelines.console import utf8_text
from pipelines.inference.predictions import PredictedPart
from pipelines.serving.prediction_rows import rounded
from proser_core.errors import ConfigError
from proser_core.recognition.open_set_classifier import Predictions, probability_columns
from proser_core.store.files import disk_full_errors, temporary_path

Write = Callable[[PredictedPart], None]
FORMULA = re.compile(r"[=+@\t\r]|-(?![\d.]+$)")  # but a class may be called -1
ROW_GROUP = 32 << 20  # bytes of Parquet that are written together, whatever the number of classes


@contextmanager
def open_output(path: Path | None, class_names: Sequence[str]) -> Iterator[Write]:
    """A function that writes a part. The file appears once all parts are written, and takes the place of an earlier one
    only if an image could be classified; without a path nothing is written. Raises StorageError where its disk is full,
    and ConfigError where it cannot take that place, with the place where it is kept."""
    if path is None:
        yield lambda part: None
        return
    write_rows, temporary, classified = FORMATS[path.suffix], temporary_path(path), 0

    def write_and_count(part: PredictedPart) -> None:
        nonlocal classified
        write(part)
        classified += len(part.names)

    try:
        with disk_full_errors(path.parent):
            with write_rows(temporary, list(class_names)) as write:
                yield write_and_count
            if classified or not path.exists():
                _replace(path, temporary)
    finally:
        temporary.unlink(missing_ok=True)


def _replace(path: Path, temporary: Path) -> None:
    try:
        temporary.replace(path)
    except OSError as error:  # such as another user's file in /tmp: hours of predictions are not thrown away
        kept = temporary.rename(path.with_name(f"{temporary.name.removeprefix('.')}{path.suffix}"))
        reason = f"{path} cannot be replaced ({error.strerror})"
        raise ConfigError(f"{reason}; the predictions are in {kept}") from error


def _rows(part: PredictedPart, class_names: list[str]) -> Iterator[dict[str, Any]]:
    columns = _predicted(rounded(part.predictions), class_names)
    plain = {name: values if isinstance(values, list) else values.tolist() for name, values in columns.items()}
    for row, name in enumerate(part.names):
        yield {"image": utf8_text(name), **{column: values[row] for column, values in plain.items()}, "error": ""}
    for failure in part.failures:
        yield {"image": utf8_text(failure.name), **dict.fromkeys(plain), "error": utf8_text(failure.reason)}


def _predicted(predictions: Predictions, class_names: list[str]) -> dict[str, Any]:
    """Columns of the classified images, but for their names."""
    columns = predictions.columns(class_names)
    columns["nearest_class"] = [class_names[index] for index in predictions.known_predictions.tolist()]
    return {name: columns[name] for name in _columns(class_names) if name in columns}


@contextmanager
def _csv(path: Path, class_names: list[str]) -> Iterator[Write]:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, _columns(class_names))
        writer.writeheader()
        yield lambda part: writer.writerows(
            {name: harmless(cell) for name, cell in row.items()} for row in _rows(part, class_names)
        )


def harmless(cell: Any) -> Any:
    """A cell with an apostrophe before what a spreadsheet would run as a formula: file names may come from others."""
    return f"'{cell}" if isinstance(cell, str) and FORMULA.match(cell) else cell


@contextmanager
def _jsonl(path: Path, class_names: list[str]) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as file:
        yield lambda part: file.writelines(f"{json.dumps(row)}\n" for row in _rows(part, class_names))


@contextmanager
def _parquet(path: Path, class_names: list[str]) -> Iterator[Write]:
    kinds = {**dict.fromkeys(("image", "label", "nearest_class", "error"), pa.string()), "unknown": pa.bool_()}
    schema = pa.schema([(name, kinds.get(name, pa.float64())) for name in _columns(class_names)])
    waiting: list[pa.Table] = []
    with parquet.ParquetWriter(path, schema) as writer:

        def write(part: PredictedPart) -> None:
            names, columns = list(map(utf8_text, part.names)), _predicted(part.predictions, class_names)
            failed = [{"image": utf8_text(each.name), "error": utf8_text(each.reason)} for each in part.failures]
            waiting.append(pa.table({"image": names, **columns, "error": [""] * len(names)}, schema))
            waiting.append(pa.Table.from_pylist(failed, schema))
            if sum(table.nbytes for table in waiting) >= ROW_GROUP:
                flush()

        def flush() -> None:
            writer.write_table(pa.concat_tables(waiting))
            waiting.clear()

        yield write
        if waiting:
            flush()


def _columns(class_names: list[str]) -> list[str]:
    return ["image", "label", "unknown", "unknown_score", "nearest_class", *probability_columns(class_names), "error"]


FORMATS = {".parquet": _parquet, ".csv": _csv, ".jsonl": _jsonl}
