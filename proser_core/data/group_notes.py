"""What a reader of results must know of the groups of a task's images."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from proser_core.data.image_sets import ImageSet
from proser_core.titles import first_names

GROUPS = "groups of images"
"""The name of the note among those of a task."""
MIXED, ALONE, NONE_LEFT = "with images of more than one class", "one group alone", "no group left for"
WARNINGS = (MIXED, ALONE, NONE_LEFT)
"""What a note says where a user should look at the images."""
PART_TITLES = {"train": "training", "val": "validation", "test": "test"}


@dataclass(frozen=True)
class KnownGroups:
    """Classes by name, and groups int64[N] and class ids int64[N] of their images in each part that is grouped; those
    of `drawn` are drawn from the same images as the training."""

    classes: Mapping[int, str]
    groups: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]
    drawn: tuple[str, ...]

    @classmethod
    def of(
        cls, parts: Mapping[str, ImageSet], classes: Mapping[int, str], drawn: Collection[str] = ()
    ) -> "KnownGroups":
        """The groups of the images of `classes`, names by class id, in the parts."""
        groups, labels = {}, {}
        for name, part in parts.items():
            if part.groups is not None:
                rows = np.isin(part.labels, list(classes))
                groups[name], labels[name] = part.groups[rows], part.labels[rows]
        return cls(classes, groups, labels, tuple(part for part in drawn if part in groups))

    def counts(self) -> dict[str, int]:
        """Groups in each part; empty where images were not grouped."""
        return {name: len(np.unique(groups)) for name, groups in self.groups.items()}

    def notes(self) -> dict[str, str]:
        """How many groups there are, and which classes have too few; by `GROUPS`, nothing where there are none."""
        if not self.groups:
            return {}
        counts, groups = self.counts(), np.concatenate(list(self.groups.values()))
        sizes = np.unique(groups, return_counts=True)[1]
        shares = ", ".join(f"{count:,} for {PART_TITLES[name]}" for name, count in counts.items())
        found = [
            f"{len(groups):,} images of known classes form {len(sizes):,}, the largest of {sizes.max():,}: {shares}"
        ]
        if divided := sum(counts.values()) - len(sizes):
            found.append(f"{divided:,} counted twice, because the folders train/, val/ and test/ divide them")
        if mixed := self._mixed():
            found.append(f"{mixed:,} {MIXED}")
        shared = {part: f"{100 * share:.1f}" for part, share in self.shared().items()}
        if flattered := [
            f"{share} % of the {PART_TITLES[part]} images" for part, share in shared.items() if share != "0.0"
        ]:
            found.append(
                f"a random split would have put an image of the same group into training for {' and '.join(flattered)}"
            )
        if len(sizes) < len(groups):
            found.append("intervals assume independent images, so they are too narrow")
        return {GROUPS: "; ".join([*found, *self._warnings()])}

    def shared(self) -> dict[str, float]:
        """The share of the images of each drawn part that would have an image of their own group in training, if parts
        of the same sizes were drawn image by image: the expectation over all such draws."""
        if not self.drawn:
            return {}
        pool, numbers = ("train", *self.drawn), {each: target for target, each in enumerate(self.classes)}
        groups, labels = self._joined(pool)
        targets = np.array([numbers[each] for each in labels.tolist()], np.int64)
        counts = {part: np.array([np.sum(self.labels[part] == each) for each in numbers]) for part in pool}
        chances = shared_with_training(groups, targets, counts["train"])
        return {part: float(counts[part] @ chances / max(counts[part].sum(), 1)) for part in self.drawn}

    def _joined(self, parts: Collection[str]) -> tuple[np.ndarray, np.ndarray]:
        """Groups and class ids of the images of these parts."""
        groups, labels = (np.concatenate([each[part] for part in parts]) for each in (self.groups, self.labels))
        return groups, labels

    def _mixed(self) -> int:
        """Groups with images of more than one class."""
        groups, labels = self._joined(self.groups)
        of_classes = np.unique(np.stack([groups, labels]), axis=1)[0]
        return int((np.unique(of_classes, return_counts=True)[1] > 1).sum())

    def _warnings(self) -> list[str]:
        groups, labels = self._joined(self.groups)
        few = {ALONE: [number for number in self.classes if len(np.unique(groups[labels == number])) == 1]}
        for part in self.groups:
            few[f"{NONE_LEFT} {PART_TITLES[part]}"] = [each for each in self.classes if each not in self.labels[part]]
        return [f"{what}: {first_names([self.classes[each] for each in ids])}" for what, ids in few.items() if ids]


def shared_with_training(groups: np.ndarray, labels: np.ndarray, trained: np.ndarray) -> np.ndarray:
    """float64[K]: of an image of each class that is not trained on, the probability that an image of its group is.

    `groups` and `labels` int64[N] (0..K-1) are of all images that are divided; of each class `trained` int64[K] of them
    are drawn for training, each such set as likely as another. Exact: a class is drawn without replacement, and classes
    are drawn independently. 0 for a class of which all images are trained on.
    """
    counts, expected = np.bincount(labels, minlength=len(trained)), np.zeros(len(trained))
    cells, sizes = np.unique(np.stack([groups, labels]), axis=1, return_counts=True)
    starts = np.flatnonzero(np.diff(cells[0], prepend=cells[0][0] - 1))
    for classes, members in zip(np.split(cells[1], starts[1:]), np.split(sizes, starts[1:]), strict=True):
        if members.sum() == 1:
            continue
        unseen = [_none_drawn(counts[k], trained[k], m) for k, m in zip(classes, members, strict=True)]
        for place, (k, m) in enumerate(zip(classes, members, strict=True)):
            if trained[k] < counts[k]:
                mates = _none_drawn(counts[k] - 1, trained[k], m - 1)  # the image itself is not drawn
                expected[k] += m * (1 - mates * np.prod(np.delete(unseen, place)))
    return expected / np.maximum(counts, 1)


def _none_drawn(count: int, drawn: int, members: int) -> float:
    """Probability that none of `members` is among `drawn` of `count` images: binom(count - members, drawn) /
    binom(count, drawn)."""
    steps = np.arange(members)
    return float(np.prod(np.maximum(count - drawn - steps, 0) / (count - steps)))
