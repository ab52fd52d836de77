"""Near duplicates among images: frames of a burst, copies in another size or format, crops that cut off little.

Two images are near duplicates where their perceptual hashes differ in few bits and their grey patterns correlate. The
hash is that of the DCT (Zauner 2010): which of the 63 lowest frequencies of the grey image are above their median.
Of 300 crops of two photos, 99 % are found where they are shifted by 2 % of their width or turned by 3 degrees, 59 %
where they are shifted by 4 %, 63 % where they are zoomed by 10 %. Of 3,000 test images of CIFAR10 none is called a
duplicate, of Omniglot's letters 0.7 %; digits are too plain for this: of MNIST's 37 %.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import coo_array

SIZE = 32
"""Height and width in pixels at which images are compared."""
FREQUENCIES = 8
"""Frequencies of the DCT in each direction; the hash leaves the constant out."""
MOST_BITS = 12
"""The most bits, of 63, by which the hashes of near duplicates differ."""
LEAST_CORRELATION = 0.9
"""The least correlation of the grey patterns of near duplicates."""
KINDS = 4
"""The most kinds of pairs, each of which is linked by itself."""
AT_ONCE = 1 << 22  # pairs of hashes that are compared at once
NO_PAIRS = np.zeros((0, 2), np.int64)
LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R BT.601


class Looks(NamedTuple):
    """What images look like: perceptual hashes uint64[N], and grey patterns uint8[N, 256]."""

    hashes: np.ndarray
    patterns: np.ndarray


def looks_of(images: np.ndarray) -> Looks:
    """The looks of images uint8[N, SIZE, SIZE, 3]."""
    from scipy.fft import dctn  # which lists of data sets do without

    grey = images @ LUMA
    lowest = dctn(grey, axes=(1, 2), norm="ortho")[:, :FREQUENCIES, :FREQUENCIES].reshape(len(grey), -1)[:, 1:]
    bits = lowest > np.median(lowest, axis=1, keepdims=True)
    packed = np.packbits(np.pad(bits, ((0, 0), (1, 0))), axis=1)
    pooled = grey.reshape(len(grey), SIZE // 2, 2, SIZE // 2, 2).mean(axis=(2, 4))
    return Looks(packed.view(np.uint64).ravel(), pooled.round().astype(np.uint8).reshape(len(grey), -1))


def links_by_looks(looks: Looks, kinds: Callable[[np.ndarray], np.ndarray] | None = None) -> np.ndarray:
    """int64[P, 2]: pairs of near duplicates, the earlier image first, that link all there are, directly or through
    others, with fewer pairs than images: of a fixed camera's frames each is a near duplicate of all. Every pair of
    hashes is compared, which takes time with the square of their number. `kinds` gives each of pairs int64[P, 2] one of
    KINDS numbers from 0 on, int64[P], and the pairs of each kind are linked by themselves."""
    from scipy.sparse.csgraph import minimum_spanning_tree

    count = len(looks.hashes)
    total = count * (KINDS if kinds else 1)  # images once for each kind
    links, groups = NO_PAIRS, np.arange(total)
    for candidates in _candidates(looks):
        of_kind = candidates + count * kinds(candidates)[:, None] if kinds else candidates
        pairs = of_kind[np.not_equal(*groups[of_kind.T])]
        near = pairs[_are_near(looks, pairs % count)]
        if len(near):
            tree = minimum_spanning_tree(_graph(np.concatenate([links, near]), total)).tocoo()
            links = np.stack([tree.row, tree.col], axis=1).astype(np.int64)
            groups = components(links, total)
    return np.sort(links % count, axis=1) if count else links


def components(pairs: np.ndarray, count: int) -> np.ndarray:
    """int64[N]: the connected component of each of `count` images, numbered in the order of their first images."""
    from scipy.sparse.csgraph import connected_components

    labels = connected_components(_graph(pairs, count), directed=False)[1]
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _graph(pairs: np.ndarray, count: int) -> "coo_array":
    from scipy.sparse import coo_array

    return coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count))


def _candidates(looks: Looks) -> Iterator[np.ndarray]:
    """Pairs int64[P, 2] of similar hashes, the earlier image first, 10,000 at a time."""
    hashes, start = looks.hashes, 0
    while start < len(hashes):
        rows = hashes[start : start + max(1, AT_ONCE // (len(hashes) - start))]
        first, second = np.nonzero(np.bitwise_count(rows[:, None] ^ hashes[start:]) <= MOST_BITS)
        later = second > first
        pairs = start + np.stack([first[later], second[later]], axis=1)
        yield from np.array_split(pairs, len(pairs) // 10_000 + 1)
        start += len(rows)


def _are_near(looks: Looks, pairs: np.ndarray) -> np.ndarray:
    """bool[P] of pairs of similar hashes."""
    first, second = looks.patterns[pairs.T]
    same = (first == second).all(axis=1)  # also without any contrast, where nothing correlates
    return same | ((unit(first) * unit(second)).sum(axis=1) >= LEAST_CORRELATION)


def unit(patterns: np.ndarray) -> np.ndarray:
    """Patterns [N, d] as float32 of mean 0 and length 1, whose products are correlations; 0 without any contrast."""
    centred = patterns.astype(np.float32)
    centred -= centred.mean(axis=1, keepdims=True)
    return centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-6)
