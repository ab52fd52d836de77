"""Whether images may be mirrored: where a mirrored class looks like another one, flips teach the wrong thing.

Decided on training images, before anything is trained. Each is compared with the nearest image of its class, once as it
is and once mirrored, by the correlation of small grey patterns. Where a mirror image is as good a member of its class,
the image as it is lies nearer in half of all cases: in 49 to 52 % of them for 1,000 images of CIFAR10 or CIFAR100. For
handwritten digits it is 96 %, for 30 of Omniglot's characters 81 to 83 %. What pixels do not show, this does not see.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from proser_core.config import Recipe
from proser_core.data.image_sets import ImageSet, chunks
from proser_core.data.near_duplicates import unit
from proser_core.rng import keyed_generator

FLIPS = "horizontal flips"
"""The name of the note among those of a task."""
SIZE = 16
MOST = 4000
"""Images that are compared; the time grows with the square of their number. From about 140 equally large classes on,
none has enough of them to be found by itself."""
AT_ONCE = 256
"""Images that are compared with all others at a time."""
SHARE, SHARE_OF_CLASS = 0.65, 0.75
"""Shares of images, of all or of one class, that lie nearer to their class than their mirror images do, from which on
flips are harmful."""
LEVEL = 0.01
"""Level of the sign test, one-sided, which these shares must pass too; by Bonferroni for classes."""
LIKE = 0.5
"""Share of the mirror images of a class that lie nearest to one other class, from which on the two are named."""


@dataclass(frozen=True)
class Mirroring:
    """Whether flips are harmless, and why, for people."""

    harmless: bool
    reason: str

    def notes(self) -> dict[str, str]:
        """The reason by `FLIPS`, where there is one."""
        return {FLIPS: self.reason} if self.reason else {}


def with_flips(notes: Mapping[str, str], recipe: Recipe, *, flip: bool) -> dict[str, str]:
    """The notes of a task, that on flips with what the trainings of a recipe do, whatever was judged; `flip` is decided
    where data.flip is auto."""
    if FLIPS not in notes:
        return dict(notes)
    done = "on" if recipe.data.decided(flip=flip).flips else "off"
    if recipe.network.is_frozen("finetune"):
        done = "none of frozen features"
    return {**notes, FLIPS: f"{done}, {notes[FLIPS]}"}


def judge_mirroring(train: ImageSet, names: Sequence[str], seed: int) -> Mirroring:
    """Whether flips harm the training images of the known classes, labels 0..K-1, named in their order.

    Of each group in a class one image is compared; the draw is that of `seed`.
    """
    rows = _independent(train, seed)
    patterns, labels = _patterns(train, rows), train.labels[rows]
    (own, _), (of_mirror, nearest) = (_nearest(each, patterns, labels) for each in (patterns, patterns[:, :, ::-1]))
    compared = np.isfinite(own) & (own != of_mirror)
    if not compared.any():
        return Mirroring(True, "not judged: no class has enough images to compare its mirror images with")
    nearer, labels = own[compared] > of_mirror[compared], labels[compared]
    share, count = f"{100 * nearer.mean():.0f} %", f"{len(nearer):,} compared images"
    found = f"{share} of {count} are more like their class than their mirror images"
    odd = [label for label in np.unique(labels) if _is_one_sided(nearer[labels == label], SHARE_OF_CLASS, len(names))]
    if not odd and not _is_one_sided(nearer, SHARE, 1):
        return Mirroring(True, f"judged harmless: {found} (50 % expected)")
    odd.sort(key=lambda label: -nearer[labels == label].mean())
    worst = ", ".join(names[label] for label in odd[:5])
    pairs = _look_alikes(train.labels[rows][nearest[compared]], labels, names)
    reasons = [found, f"above all those of {worst}" if worst else "", f"mirrored, {', '.join(pairs)}" if pairs else ""]
    return Mirroring(False, "judged harmful: " + "; ".join(filter(None, reasons)))


def _is_one_sided(nearer: np.ndarray, share: float, tests: int) -> bool:
    from scipy.stats import binomtest  # slow to load

    found, count = int(nearer.sum()) // 2, max(1, len(nearer) // 2)  # two that are each other's nearest agree
    return nearer.mean() >= share and tests * binomtest(found, count, 0.5, "greater").pvalue < LEVEL


def _nearest(patterns: np.ndarray, others: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The similarity of each pattern to the nearest of the others of its class, and which of all is nearest; not to the
    one in its own row, of which a mirror image says nothing of the class."""
    found = [np.zeros(0, np.float32)], [np.zeros(0, np.int64)]
    first, second = (unit(each.reshape(len(each), -1)) for each in (patterns, others))
    for start in range(0, len(first), AT_ONCE):
        similarity = first[start : start + AT_ONCE] @ second.T
        rows = np.arange(len(similarity))
        similarity[rows, start + rows] = -np.inf
        found[1].append(similarity.argmax(axis=1))
        similarity[labels[start + rows][:, None] != labels] = -np.inf
        found[0].append(similarity.max(axis=1))
    return np.concatenate(found[0]), np.concatenate(found[1])


def _look_alikes(nearest: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> list[str]:
    """Up to three pairs of classes of which one looks like the other when it is mirrored; `nearest` int64[N] are the
    classes of the images that the mirror images of those of `labels` lie nearest to."""
    cells, counts = np.unique(np.stack([labels, nearest]), axis=1, return_counts=True)
    sizes, most = np.bincount(labels), dict[int, tuple[float, int, int]]()
    for each, other, count in zip(*cells.tolist(), counts.tolist(), strict=True):
        share = count / sizes[each]
        if each != other and share >= LIKE and share > most.get(each, (0.0,))[0]:
            most[each] = share, each, other
    return [f"{names[each]} looks like {names[other]}" for _, each, other in sorted(most.values(), reverse=True)[:3]]


def _independent(train: ImageSet, seed: int) -> np.ndarray:
    """Rows of MOST images at most, one of each group in a class, in an order drawn by `seed`."""
    order = keyed_generator(seed, "mirroring").permutation(len(train))
    if train.groups is not None:
        pairs = np.stack([train.labels, train.groups])[:, order]
        order = order[np.sort(np.unique(pairs, axis=1, return_index=True)[1])]
    return order[:MOST]


def _patterns(train: ImageSet, rows: np.ndarray) -> np.ndarray:
    """float32[n, SIZE, SIZE] in grey."""
    small = [
        np.asarray(Image.fromarray(image).convert("L").resize((SIZE, SIZE), Image.Resampling.BOX), np.float32)
        for chunk in chunks(train.images[rows])
        for image in chunk
    ]
    return np.stack(small)
