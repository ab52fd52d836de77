"""Images that are in more than one part of a task, or in more than one class."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import combinations

import numpy as np

REPEATS = "repeated images"
"""The name of the note among those of a task."""
LABELS = "images with more than one class"


@dataclass
class Repeats:
    """What each part of a task holds, as digests of the pixels, and the classes that an image is labelled with."""

    parts: dict[str, list[bytes]] = field(default_factory=dict)
    labels: dict[bytes, set[int]] = field(default_factory=dict)

    def watch(self, part: str, images: Iterable[np.ndarray], targets: np.ndarray) -> Iterator[np.ndarray]:
        """The chunks uint8[n, H, W, 3] of `images` as they come; once they are through, the part is known."""
        seen = self.parts[part] = []
        for chunk in images:
            seen += [blake2b(image, digest_size=16).digest() for image in np.ascontiguousarray(chunk)]
            yield chunk
        for digest, target in zip(seen, targets.tolist(), strict=True):
            self.labels.setdefault(digest, set()).add(target)

    def notes(self) -> dict[str, str]:
        """What a reader of results must know: images that are in two parts, and images with several labels. Empty where
        there is neither."""
        found = [
            f"{part} images that are {earlier} images too: {count} of {len(digests)}"
            for (earlier, others), (part, digests) in combinations(self.parts.items(), 2)
            if (count := sum(map(set(others).__contains__, digests)))
        ]
        if doubtful := sum(len(labels) > 1 for labels in self.labels.values()):
            found.append(f"{LABELS}: {doubtful}")
        return {REPEATS: "; ".join(found)} if found else {}
