"""`ValidationScores`: a classifier's scores of images that it was not trained on, by which classifiers are compared."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from proser_core.config import digest_of
from proser_core.data.image_sets import chunks
from proser_core.data.tasks import OpenSetTask
from proser_core.recognition.metrics import auroc, open_set_macro_f1
from proser_core.recognition.scoring import OpenSetScores, accepted

COMPARED = ("macro_f1", "auroc", "closed_set_accuracy")
"""Metrics by which classifiers are compared."""
ARRAYS = ("scores", "known_predictions", "targets")


@dataclass(frozen=True)
class ValidationScores:
    """Scores float[N], larger for unknown, closed-set predictions int64[N] in 0..K-1 and targets int64[N] in 0..K of
    validation images and development unknowns, one row per image.

    Two of them stand for the same images, in the same order, where their fingerprints are equal. `images` uint64[N]
    tells each image, where others are not the same; None in older classifiers. `contents` uint64[N] tells a user's own
    photos by their files, also where they are seen at another size.
    """

    scores: np.ndarray
    known_predictions: np.ndarray
    targets: np.ndarray
    num_known: int
    fingerprint: str
    images: np.ndarray | None = None
    contents: np.ndarray | None = None

    @classmethod
    def of(cls, parts: Mapping[str, OpenSetScores], task: OpenSetTask) -> "ValidationScores":
        """The scores of a task's validation images and development unknowns, from the decisions on them."""
        found = [parts["val"], parts["development"]]
        fingerprint, images = image_digests(task)
        return cls(
            scores=np.concatenate([each.scores for each in found]),
            known_predictions=np.concatenate([each.known_predictions for each in found]),
            targets=np.concatenate([task.val.targets, task.development.targets]),
            num_known=task.num_known,
            fingerprint=fingerprint,
            images=images,
            contents=task.contents,
        )

    @property
    def is_known(self) -> np.ndarray:
        """bool[N]: images of known classes."""
        return self.targets < self.num_known

    @property
    def known_scores(self) -> np.ndarray:
        """float[M]: scores of the images of known classes."""
        return self.scores[self.is_known]

    def known_rate(self, bias: float) -> float:
        """Share of the validation images that stay known."""
        return float(accepted(self.scores, bias)[self.is_known].mean())

    def p_values(self, scores: np.ndarray) -> np.ndarray:
        """Conformal p-values float[n] of n images with these scores: the share of known ones that score as high, each
        image counted among the validation images. Of images like these 5 % have one of at most 0.05. Source: Vovk et
        al. 2005."""
        known = np.sort(self.known_scores)
        as_high = len(known) - np.searchsorted(known, scores, side="left")
        return (as_high + 1) / (len(known) + 1)

    def metrics(self, bias: float) -> dict[str, float]:
        """COMPARED by name, fractions; macro-F1 at this bias. Without an unknown image, the accuracy alone."""
        known = self.is_known
        accuracy = {"closed_set_accuracy": float((self.known_predictions[known] == self.targets[known]).mean())}
        if known.all():
            return accuracy
        predictions = np.where(accepted(self.scores, bias), self.known_predictions, self.num_known)
        return {
            "macro_f1": open_set_macro_f1(predictions, self.targets, self.num_known),
            "auroc": auroc(self.scores[known], self.scores[~known]),
            **accuracy,
        }

    def select(self, rows: np.ndarray) -> "ValidationScores":
        """The images at `rows`, any of them as often as it is listed."""
        return replace(self, **{name: each[rows] for name, each in self._arrays().items()})

    def _arrays(self) -> dict[str, np.ndarray]:
        """One number per image each."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        more = {"images": self.images, "contents": self.contents}
        return arrays | {name: each for name, each in more.items() if each is not None}

    def is_of_images_of(self, others: "ValidationScores") -> bool:
        """Whether both stand for the same images of the same classes, in the same order, at any size."""
        if self.fingerprint == others.fingerprint:
            return True
        if self.contents is None or others.contents is None or self.num_known != others.num_known:
            return False
        return np.array_equal(self.contents, others.contents) and np.array_equal(self.targets, others.targets)

    def save(self, path: Path) -> None:
        """Write it as .npz."""
        arrays = self._arrays()
        np.savez_compressed(path, allow_pickle=False, num_known=self.num_known, fingerprint=self.fingerprint, **arrays)

    @classmethod
    def load(cls, path: Path) -> "ValidationScores":
        """Inverse of `save`; classifiers of format 3 have `margins`, which are the scores with the other sign."""
        with np.load(path) as arrays:
            return cls(
                scores=arrays["scores"] if "scores" in arrays else -arrays["margins"],
                known_predictions=arrays["known_predictions"],
                targets=arrays["targets"],
                num_known=int(arrays["num_known"]),
                fingerprint=str(arrays["fingerprint"]),
                images=arrays.get("images"),
                contents=arrays.get("contents"),
            )


@dataclass(frozen=True)
class Proxy:
    """The same training with some of the classes held out as unknown. It measures how well a model that knows every
    class detects unknown images.

    `bias` is the proxy's own, `results` its metrics by name. Of the classes that it did not know, `chose` were to
    choose by, and `reported` only report. The fine-tune is the best of `num_points`, which a saved model does not have.
    """

    validation_scores: ValidationScores
    bias: float
    results: dict[str, float]
    chose: tuple[str, ...]
    reported: tuple[str, ...]
    num_points: int = 1

    @property
    def digest(self) -> str:
        """The digest of its results, for the key of a stage that reads them."""
        return digest_of(self.results)

    def metrics(self) -> dict[str, float]:
        """The metrics of COMPARED that need unknown images."""
        found = self.validation_scores.metrics(self.bias)
        return {name: value for name, value in found.items() if name != "closed_set_accuracy"}


def image_digests(task: OpenSetTask) -> tuple[str, np.ndarray]:
    """The fingerprint of a task, and uint64[N] of its validation and development images, which are read once.

    The fingerprint is a digest of the names of the known classes in their order, and of these images and their targets.
    Of single images, equal pixels have equal digests.
    """
    fingerprint, digests = hashlib.sha256("\0".join(task.class_names).encode()), []
    for part in (task.val, task.development):
        fingerprint.update(np.ascontiguousarray(part.targets, np.int64).tobytes())
        for pixels in chunks(part.images):
            fingerprint.update(pixels.tobytes())
            digests += [hashlib.blake2b(image.tobytes(), digest_size=8).digest() for image in pixels]
    return fingerprint.hexdigest()[:32], np.frombuffer(b"".join(digests), np.uint64)
