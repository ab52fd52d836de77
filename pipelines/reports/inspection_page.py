"""What `proser inspect` found: facts in words, and a page with pictures in one HTML file that needs no network."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from pipelines.console import shown
from pipelines.reports.page import THUMBNAIL, render, thumbnail
from proser_core.data.decoding import to_rgb_square
from proser_core.data.findings import Finding
from proser_core.data.group_notes import PART_TITLES
from proser_core.data.inspection import Inspection
from proser_core.data.photos import opened
from proser_core.store.files import absolute
from proser_core.titles import counted

MOST, MOST_OF_SET = 60, 12
"""Pictures of one finding, and of images that are shown together."""


def facts_of(inspection: Inspection) -> dict[str, str]:
    """Counts, sizes, formats, groups and flips in words, by name."""
    listing, photos = inspection.listing, inspection.photos
    sides = np.array([(photo.width, photo.height) for photo in photos])
    by_area = np.argsort(sides.prod(axis=1), kind="stable")
    smallest, median, largest = (sides[by_area[at]] for at in (0, len(sides) // 2, -1))
    ends = f"{_size(smallest)} to {_size(largest)} pixels, median {_size(median)}"
    formats = Counter(photo.format for photo in photos).most_common()
    sizes = np.bincount(inspection.groups)
    own = Counter(PART_TITLES[part] for part in inspection.parts.tolist())
    parts = ", ".join(f"{count:,} {part}" for part, count in own.items()) if len(own) > 1 else ""
    drawn = " and ".join(PART_TITLES[part] for part in listing.drawn)
    return {
        "images": f"{len(photos):,} in {len(listing.class_names)} class{'es' if len(listing.class_names) > 1 else ''}"
        + (f": {parts}" if parts else "")
        + (f"; those for {drawn} are drawn from the training images" if drawn else ""),
        "sizes": f"all {_size(median)} pixels" if (sides == sides[0]).all() else ends,
        "formats": ", ".join(f"{name} {count:,}" for name, count in formats),
        "groups": f"{len(sizes):,}, the largest of {counted(int(sizes.max()), 'image')}; {_divided(inspection)}",
        "flips": f"{inspection.mirroring.reason} (by all training images; a run judges those that it trains on)",
    }


def _divided(inspection: Inspection) -> str:
    parts = np.unique(inspection.parts, return_inverse=True)[1]
    pairs = np.unique(np.stack([inspection.groups, parts]), axis=1)
    divided = int((np.bincount(pairs[0]) > 1).sum())
    return f"the folders train/, val/ and test/ divide {divided:,}" if divided else "none is divided between parts"


def class_rows(inspection: Inspection) -> list[tuple[str, int, float]]:
    """Name, images and share of the largest class of each class, smallest first."""
    counts = inspection.counts()
    order = np.argsort(counts, kind="stable").tolist()
    most = max(int(counts.max()), 1)
    return [(shown(inspection.listing.class_names[each]), int(counts[each]), counts[each] / most) for each in order]


def name_of(inspection: Inspection, row: int) -> str:
    """The path of an image below the folder."""
    return shown(os.path.relpath(inspection.files[row].path, absolute(inspection.root)))


def inspection_page(inspection: Inspection, findings: Sequence[Finding], command: str) -> bytes:
    """The page. Raises DataError for an image that has gone since it was read."""
    classes = [
        {"name": name, "count": f"{count:,}", "share": f"{100 * share:.1f}"}
        for name, count, share in class_rows(inspection)
    ]
    with ThreadPoolExecutor() as pool:
        shown_findings = [_on_page(inspection, each, pool) for each in findings]
    about = {
        "title": shown(f"Images of {inspection.root}"),
        "facts": facts_of(inspection),
        "findings": shown_findings,
        "classes": classes,
        "command": shown(command),
    }
    return render("inspection.html.jinja", about).encode()


def _on_page(inspection: Inspection, finding: Finding, pool: ThreadPoolExecutor) -> dict[str, Any]:
    is_loose = all(len(each) == 1 for each in finding.sets)
    sets = [list(each[:MOST_OF_SET]) for each in _first(finding.sets)]
    if is_loose:  # side by side
        sets = [[each for one in sets for each in one]] if sets else []
    left = sum(map(len, finding.sets)) - sum(map(len, sets))
    return {
        "title": shown(finding.title),
        "count": f"{finding.count:,}",
        "advice": finding.advice,
        "lines": [shown(line) for line in finding.lines],
        "sets": [list(pool.map(lambda each: _picture(inspection, *each), images)) for images in sets],
        "is_loose": is_loose,
        "rest": f"{left:,} more are not shown." if left else "",
    }


def _first(sets: Sequence[Sequence[tuple[int, str]]]) -> Iterator[Sequence[tuple[int, str]]]:
    """Sets until there are MOST pictures."""
    count = 0
    for each in sets:
        if count >= MOST:
            return
        count += min(len(each), MOST_OF_SET)
        yield each


def _picture(inspection: Inspection, row: int, caption: str) -> Mapping[str, str]:
    file = inspection.files[row]
    with opened(file.path) as (image, _):
        pixels = to_rgb_square(image, THUMBNAIL)
    return {
        "jpeg": thumbnail(pixels),
        "label": shown(inspection.listing.class_names[file.label]),
        "caption": shown(caption),
        "name": name_of(inspection, row),
    }


def _size(sides: np.ndarray) -> str:
    return f"{sides[0]:,} x {sides[1]:,}"
