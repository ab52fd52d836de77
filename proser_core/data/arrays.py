"""A task from arrays, for images that are in memory already."""

from numbers import Real
from typing import Any

import numpy as np

from proser_core.data.image_sets import ImageSet
from proser_core.data.preparation import assemble, stratified_rows
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.tasks import Labelled, OpenSetTask
from proser_core.errors import DataError


def task_from_arrays(
    images: np.ndarray,
    labels: np.ndarray,
    *,
    test_images: np.ndarray | None = None,
    test_labels: np.ndarray | None = None,
    development: np.ndarray | None = None,
    val_fraction: float = 0.1,
    seed: int = 0,
) -> OpenSetTask:
    """Training images with labels [N], numbers or names, each class of which is known; `seed` draws `val_fraction` of
    each for validation.

    Images are uint8[N, H, H, 3], or grey as uint8[N, H, H], all of one size. Test images whose label is none of the
    known ones are unknown; `development` are unknown images that may choose between fine-tunes, of other classes than
    the test's. Without test images nothing is reported but the validation. Raises DataError for arrays of another type
    or size, for a missing label, for labels without a common order, for fewer than two classes, for a class with fewer
    than two images, and for test labels none of which is known.
    """
    if (test_images is None) != (test_labels is None):
        raise DataError("test_images and test_labels are given together, or neither of them")
    for kind, given in (("labels", labels), ("test_labels", test_labels)):
        _check_given(kind, given)
    classes = np.unique(labels)
    if not isinstance(val_fraction, Real) or not 0 < val_fraction < 1:
        raise DataError(f"val_fraction is {val_fraction!r}; need a share between 0 and 1")
    if len(classes) < 2:
        raise DataError(f"the labels name {'1 class' if len(classes) else 'no class'}; need at least 2 known classes")
    names = tuple(map(str, classes.tolist()))
    pixels = _rgb(images)
    known = ImageSet(pixels, np.searchsorted(classes, labels), names)
    size, count = pixels.shape[1], len(classes)
    nothing = np.zeros((0, size, size, 3), np.uint8)
    tested = nothing if test_images is None else _rgb(test_images)
    test_labels = classes[:0] if test_labels is None else np.asarray(test_labels)
    unknown = _unknown(test_labels, classes)
    ids = {label: number for number, label in enumerate([*classes.tolist(), *unknown])}
    test_ids = np.array([ids[label] for label in test_labels.tolist()], np.int64)
    test = ImageSet(tested, test_ids, tuple(map(str, ids)))
    others = nothing if development is None else _rgb(development)
    ImageSet(others, np.zeros(len(others), np.int64), ("unknown",))  # refuses what are no images
    for name, array in (("images", pixels), ("test_images", tested), ("development", others)):
        if not size or array.shape[1:3] != (size, size):
            raise DataError(
                f"{name} are {array.shape[2]} x {array.shape[1]} pixels; need squares of one size: resize all of them "
                "to one height and width"
            )
    val_rows = stratified_rows(known.labels, names, val_fraction, seed)
    return assemble(
        ClassSplit(
            known=tuple(range(count)),
            unknown=tuple(range(count, len(ids))),
            settings=(len(unknown),) if len(unknown) else (),
        ),
        names,
        train=Labelled(pixels[~val_rows], known.labels[~val_rows]),
        val=Labelled(pixels[val_rows], known.labels[val_rows]),
        development=others,
        test=Labelled(tested, np.minimum(test.labels, count)),
        test_classes=test.labels,
    )


def _check_given(kind: str, labels: np.ndarray | None) -> None:
    """Refuses labels that are not one per image or have no common order, and None, NaN and pandas' NA among them, which
    have none either, or would be a class."""
    if labels is None:
        return
    try:
        array = np.asarray(labels)
    except ValueError as error:
        raise DataError(f"{kind} have several lengths; need one number or name per image") from error
    if array.ndim != 1:
        raise DataError(f"{kind} have the shape {array.shape}; need one number or name per image, not in columns")
    values = array.tolist()
    missing = sum(each is None or type(each).__name__ == "NAType" or each != each for each in values)
    if missing:
        raise DataError(f"{missing} of {len(values)} {kind} are missing (None or NaN); give each image one, or drop it")
    try:
        np.unique(array)
    except TypeError:
        kinds = " and ".join(sorted({type(each).__name__ for each in values}))
        raise DataError(f"{kind} of type {kinds} have no common order; give numbers alone, or names alone") from None


def _unknown(test_labels: np.ndarray, classes: np.ndarray) -> list[Any]:
    """The test labels that are no class, each once, in their order. Raises DataError where none is one. Compared as
    Python has them: NumPy would compare numbers with names as text."""
    known, tested = classes.tolist(), test_labels.tolist()
    if tested and set(known).isdisjoint(tested):
        raise DataError(
            f"test_labels have no known class: they are {test_labels.dtype} such as {tested[0]!r}, and the known ones "
            f"{classes.dtype} such as {known[0]!r}; give test images of known classes too, with labels of the same kind"
        )
    return sorted(set(tested) - set(known))


def _rgb(images: np.ndarray) -> np.ndarray:
    """uint8[N, H, W, 3]; grey images three times over. `ImageSet` refuses what is neither. Raises DataError for a list
    of images of several sizes."""
    try:
        pixels = np.asarray(images)
    except ValueError as error:
        raise DataError("images have several sizes; resize all of them to one height and width") from error
    return np.stack([pixels] * 3, axis=-1) if pixels.ndim == 3 else pixels
