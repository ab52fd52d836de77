"""Images to review, and the tables of a review read and filled in."""

import csv
from pathlib import Path

import numpy as np
from PIL import Image

from pipelines.inference.review_names import NAMES

HOSTILE = "<b>a & b.png"


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def png(folder: Path) -> Path:
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(folder / "black.png")
    return folder / "black.png"


def name_groups(folder: Path, names: dict[str, dict[str, str]]) -> None:
    rows = [{**row, **names.get(row["group"], {})} for row in table(folder / NAMES)]
    with (folder / NAMES).open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
