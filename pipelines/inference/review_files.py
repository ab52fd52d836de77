"""The folder of a review: a page to look at, a table of the unknown images, and the names that a person gives.

index.html shows the groups; there they are named, and it saves names.csv anew. images.csv has a row for each unknown
image, names.csv one for each group.
"""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.console import shown
from pipelines.inference.prediction_files import harmless
from pipelines.inference.review_names import IMAGE_COLUMNS, IMAGES, NAMES, PAGE, check_replaceable
from pipelines.inference.unknown_groups import Group, Reviewed
from pipelines.output_files import write_together
from pipelines.reports.page import render

NAME_COLUMNS = ("group", "images", "name", "without", "also")
SHOWN = 200  # images of a group on the page


def write_review(folder: Path, title: str, reviewed: Reviewed, groups: Sequence[Group], classes: Sequence[str]) -> None:
    """Write the page, the images and the names, all of them empty, into the folder, which is made. Raises ConfigError
    where that would replace anything but an earlier review without names, StorageError where the disk is full; both
    leave the folder as it was."""
    rows = [
        {
            "image": row,
            "group": number,
            "typical": "yes" if is_typical else "no",
            "nearest_class": harmless(each.nearest_class),
            "score": f"{each.score:.4f}",
            "p_value": "" if math.isnan(each.p_value) else f"{each.p_value:.4f}",
            "path": each.path,
        }
        for number, row, is_typical in _places(reviewed, groups)
        for each in [reviewed.unknown[row]]
    ]
    names = [{"group": n, "images": len(group.rows)} for n, group in enumerate(groups, 1)]
    about = {
        "title": shown(f"{title}: {reviewed.num_unknown:,} of {reviewed.total:,} images unknown"),
        "reviewed": reviewed,
        "groups": [_shown(number, group, reviewed) for number, group in enumerate(groups, 1)],
        "apart": [] if groups else [_image(row, reviewed) for row in range(len(reviewed.unknown))[:SHOWN]],
        "num_apart": 0 if groups else len(reviewed.unknown),
        "classes": classes,
        "columns": json.dumps(NAME_COLUMNS),
    }
    contents = {
        IMAGES: _table(IMAGE_COLUMNS, rows),
        NAMES: _table(NAME_COLUMNS, names),
        PAGE: render("review.html.jinja", about).encode(),
    }
    check_replaceable(folder)  # again: a person may have named groups since the command began
    write_together(folder, contents)


def _places(reviewed: Reviewed, groups: Sequence[Group]) -> list[tuple[int, int, bool]]:
    """Group, row and whether it is typical, of every unknown image; group 0 where there is no group."""
    found = [
        (number, int(row), rows is group.rows)
        for number, group in enumerate(groups, 1)
        for rows in (group.rows, group.further)
        for row in rows
    ]
    return found or [(0, row, False) for row in range(len(reviewed.unknown))]


def _shown(number: int, group: Group, reviewed: Reviewed) -> Mapping[str, Any]:
    return {
        "number": number,
        "size": len(group.rows),
        "num_further": len(group.further),
        "images": [_image(int(row), reviewed) for row in group.rows[:SHOWN]],
        "further": [_image(int(row), reviewed) for row in group.further[:SHOWN]],
    }


def _image(row: int, reviewed: Reviewed) -> Mapping[str, Any]:
    each = reviewed.unknown[row]
    lines = [f"like {shown(each.nearest_class)}", f"score {each.score:.2f}"]
    lines += [] if math.isnan(each.p_value) else [f"p {each.p_value:.3f}"]
    return {"row": row, "jpeg": each.picture, "name": shown(Path(each.path).name), "lines": lines}


def _table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Other bytes than UTF-8 in a path stay as they are, so that the file is found again."""
    lines = [columns, *([row.get(column, "") for column in columns] for row in rows)]
    text = io.StringIO(newline="")
    csv.writer(text).writerows(lines)
    return text.getvalue().encode("utf-8", "surrogateescape")
