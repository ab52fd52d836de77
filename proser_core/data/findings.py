"""What is wrong with a folder of images, or may be: one `Finding` each, with what to do about it."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from proser_core.data.group_notes import PART_TITLES
from proser_core.data.inspection import Inspection
from proser_core.data.near_duplicates import NO_PAIRS, components
from proser_core.errors import DataError
from proser_core.naming import check_class_names
from proser_core.store.files import absolute
from proser_core.titles import counted

IMBALANCE = 3
"""Images of the largest class for one of the smallest, from which on that is a finding."""
FEW = 5
"""Training images of a class, below which it can be neither learnt nor measured well."""
TIMES = 4
"""A side that is so many times shorter or longer than the median is very small or very large."""
ASPECT = 3
"""Sides of an image to each other, from which on a square shows little of it."""


@dataclass(frozen=True)
class Finding:
    """`count` images, files or classes of one kind. `sets` are rows of images that are shown together, each with a
    caption; `lines` are for what cannot be shown."""

    title: str
    count: int
    advice: str
    sets: Sequence[Sequence[tuple[int, str]]] = ()
    lines: Sequence[str] = ()


def findings_of(inspection: Inspection) -> list[Finding]:
    """The worst first; none where there is nothing to find."""
    found = [*_unreadable(inspection), *_repeats(inspection), *_classes(inspection), *_odd(inspection)]
    return [finding for finding in found if finding.count]


def largest_to_smallest(counts: np.ndarray) -> float:
    """Images of the largest class for one of the smallest that has any."""
    found = counts[counts > 0]
    return float(found.max() / found.min()) if len(found) else 1.0


def few_images(counts: np.ndarray) -> np.ndarray:
    """int64[n]: classes with so few training images, but any, the smallest first."""
    order = np.argsort(counts, kind="stable")
    return order[(counts[order] > 0) & (counts[order] < FEW)]


def _unreadable(inspection: Inspection) -> Iterator[Finding]:
    root = os.path.join(absolute(inspection.root), "")
    reasons = [failure.reason.replace(root, "", 1) for failure in inspection.failures]
    advice = "Repair or remove them: a run stops at the first one."
    yield Finding("files that cannot be read", len(reasons), advice, lines=reasons)
    unread = [path.removeprefix(root) for path in inspection.listing.unread]
    advice = "A run ignores them: convert them to JPEG or PNG, and put each into the folder of its class."
    yield Finding("images that are not read", len(unread), advice, lines=unread)
    try:
        check_class_names(inspection.listing.class_names)
    except DataError as error:
        yield Finding("class names that cannot be used", 1, "Rename the folder: a run stops at it.", lines=[str(error)])


def _repeats(inspection: Inspection) -> Iterator[Finding]:
    """Images that repeat others: pairs that differ in class first, then those that differ in part, then the others."""
    exact = _same_files(inspection)
    near = inspection.pairs[~_among(inspection.pairs, exact, len(inspection.photos))]
    labels, parts = inspection.labels, inspection.parts
    kinds = {"the same file": exact, "look-alikes": near}
    drawings = "Where different things look alike, as in line drawings: --data.no-group-near-duplicates."
    advice = {
        "the same file": "One of the labels is wrong: keep the image in the right class.",
        "look-alikes": f"One of the labels is wrong: correct it. {drawings}",
    }
    for name, pairs in kinds.items():
        differ = labels[pairs[:, 0]] != labels[pairs[:, 1]]
        yield _pairs(f"{name} in different classes", pairs[differ], advice[name])
    for name, pairs in kinds.items():
        yield _pairs(
            f"{name} in different parts",
            pairs[parts[pairs[:, 0]] != parts[pairs[:, 1]]],
            "Results on them are too good: remove them from train/, or let a run draw the parts (CLASS/* alone).",
        )
    advice = {
        "the same file": "Remove the copies: they only make an image count twice.",
        "look-alikes": f"A run keeps them together in one part. {drawings}",
    }
    for name, pairs in kinds.items():
        same = (labels[pairs[:, 0]] == labels[pairs[:, 1]]) & (parts[pairs[:, 0]] == parts[pairs[:, 1]])
        yield _pairs(f"{name} in one class", pairs[same], advice[name])


def _same_files(inspection: Inspection) -> np.ndarray:
    """int64[P, 2]: each image with the first of the same content in each class and part."""
    first: dict[bytes, list[int]] = {}
    pairs = []
    for row, photo in enumerate(inspection.photos):
        others = first.setdefault(photo.digest, [])
        pairs += [(other, row) for other in others]
        if all(_place(inspection, row) != _place(inspection, other) for other in others):
            others.append(row)
    return np.array(pairs, np.int64).reshape(-1, 2)


def _place(inspection: Inspection, row: int) -> tuple[int, str]:
    file = inspection.files[row]
    return file.label, file.part


def _among(pairs: np.ndarray, exact: np.ndarray, count: int) -> np.ndarray:
    """bool[P]: which pairs are of images with the same content."""
    same = components(exact, count)
    return same[pairs[:, 0]] == same[pairs[:, 1]]


def _pairs(title: str, pairs: np.ndarray, advice: str) -> Finding:
    """Images that are linked by pairs, in sets that begin with a pair."""
    rows = np.unique(pairs)
    places = np.searchsorted(rows, pairs)
    linked = components(places if len(pairs) else NO_PAIRS, len(rows))
    sets: dict[int, dict[int, str]] = {}
    for place in places.ravel().tolist():
        sets.setdefault(int(linked[place]), {})[int(rows[place])] = ""
    return Finding(title, len(rows), advice, [list(each.items()) for each in sets.values()])


def _classes(inspection: Inspection) -> Iterator[Finding]:
    """Classes with too few images or groups, and of unequal size, by what is trained on."""
    names, trained = inspection.listing.class_names, inspection.counts("train")
    if len(names) == 1:
        advice = "There is nothing to tell it apart from: add a folder of images for each further class."
        yield Finding("one class alone", 1, advice, lines=names)
    small = _too_small(inspection, trained)
    yield _small_classes(inspection, small)
    yield _few_groups(inspection, trained, small)
    yield _of_classes(
        inspection,
        f"classes of fewer than {FEW} images",
        {number: counted(trained[number], "image") for number in few_images(trained).tolist() if number not in small},
        "They are learnt badly, and a test on so few says little of them: add images, or remove the class.",
    )
    yield from _imbalance(inspection, trained, small)


def _too_small(inspection: Inspection, trained: np.ndarray) -> dict[int, str]:
    """Classes that a run refuses, by number, with the images that they have."""
    listing = inspection.listing
    least, counts = listing.least, enumerate(trained.tolist())
    small = {number: counted(count, "image") for number, count in counts if count < least}
    for part in [each for each in ("val", "test") if each not in listing.drawn]:
        missing = np.flatnonzero(inspection.counts(part) == 0).tolist()
        small |= {number: f"none in {part}/" for number in missing if number not in small}
    return small


def _small_classes(inspection: Inspection, small: dict[int, str]) -> Finding:
    listing = inspection.listing
    drawn = " and ".join(PART_TITLES[part] for part in listing.drawn)
    needs = f"{listing.least} or more, to train{f' and to draw {drawn} images' if drawn else ''}"
    return _of_classes(
        inspection, "classes with too few images", small, f"A class needs {needs}: add images, or remove it."
    )


def _few_groups(inspection: Inspection, trained: np.ndarray, small: dict[int, str]) -> Finding:
    least, rows = inspection.listing.least, inspection.parts == "train"
    groups, labels = inspection.groups[rows], inspection.labels[rows]
    counts = [len(np.unique(groups[labels == number])) for number in range(len(trained))]
    few = {
        number: f"{count} of {counted(images, 'image')}"
        for number, (count, images) in enumerate(zip(counts, trained.tolist(), strict=True))
        if count < least and number not in small
    }
    return _of_classes(
        inspection,
        "classes of too few groups",
        few,
        f"They cannot be measured, because groups are not divided; {least} are needed: add images of other scenes, or "
        "see --data.group-by and --data.no-group-near-duplicates.",
    )


def _imbalance(inspection: Inspection, trained: np.ndarray, small: dict[int, str]) -> Iterator[Finding]:
    kept = np.array([0 if number in small else count for number, count in enumerate(trained.tolist())])
    if (ratio := largest_to_smallest(kept)) >= IMBALANCE:
        extreme = [int(kept.argmax()), int(np.where(kept > 0, kept, kept.max() + 1).argmin())]
        yield _of_classes(
            inspection,
            f"classes of unequal size ({ratio:.1f} to 1)",
            {number: counted(trained[number], "image") for number in extreme},
            "--data.sampling balanced shows equally many of each; read the balanced accuracy.",
        )


def _of_classes(inspection: Inspection, title: str, about: dict[int, str], advice: str) -> Finding:
    names = inspection.listing.class_names
    return Finding(title, len(about), advice, lines=[f"{names[number]}: {text}" for number, text in about.items()])


def _odd(inspection: Inspection) -> Iterator[Finding]:
    """Images that differ from most in size, shape or colour."""
    sides = np.array([sorted((photo.width, photo.height)) for photo in inspection.photos])
    short, long = np.median(sides, axis=0)
    sizes = [f"{photo.width} x {photo.height}" for photo in inspection.photos]
    is_grey = np.array([photo.is_grey for photo in inspection.photos])
    yield _alone(
        "very small images",
        np.flatnonzero(sides[:, 0] * TIMES <= short),
        sizes,
        "They are enlarged to the size of the others: replace them where you can.",
    )
    yield _alone(
        "very large images",
        np.flatnonzero(sides[:, 1] >= TIMES * long),
        sizes,
        "What matters in them may be too small after resizing: crop them to it.",
    )
    yield _alone(
        f"images more than {ASPECT} times as long as wide",
        np.flatnonzero(sides[:, 1] > ASPECT * sides[:, 0]),
        sizes,
        "They are squeezed into a square: crop them.",
    )
    kind, other, few = (
        ("grey", "colour", is_grey) if 2 * is_grey.sum() <= len(is_grey) else ("colour", "grey", ~is_grey)
    )
    yield _alone(
        f"{kind} images among {other} ones",
        np.flatnonzero(few),
        [""] * len(few),
        "Where one class has most of them, a network learns that: take care that all classes have some, or none.",
    )


def _alone(title: str, rows: np.ndarray, captions: Sequence[str], advice: str) -> Finding:
    return Finding(title, len(rows), advice, [[(row, captions[row])] for row in rows.tolist()])


def doubted(rows: np.ndarray, names: Iterable[str], shares: np.ndarray, model: str) -> Finding:
    """The images whose neighbours, by the embeddings of a model, mostly are of the classes named."""
    captions = [f"{100 * share:.0f} % {name}" for name, share in zip(names, shares, strict=True)]
    return Finding(
        "doubtful labels",
        len(rows),
        "Move an image where its label is wrong; many are right, and only look like another class. Neighbours are "
        f"those of the embeddings of {model}.",
        [[each] for each in zip(rows.tolist(), captions, strict=True)],
    )
