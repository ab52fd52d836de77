"""What a network gives for images, as NumPy arrays, and the files that hold it: all scores start from here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from proser_core.errors import DataError

SCORED_PARTS = ("val", "development", "test")
TRAIN = "train"  # a further part, of a pretraining alone: its training images, not augmented
ARRAYS = ("known", "dummies", "embeddings")
HEAD = ("weights", "biases", "centre", "scale")
NOT_CENTRED, NOT_SCALED = np.zeros(1, np.float32), np.ones(1, np.float32)
"""Centre and scale of a classifier on embeddings as they are."""


@dataclass(frozen=True, eq=False)  # arrays have no one truth value
class LogitTable:
    """float32 logits of N images: known [N, K], dummies [N, C] (C is 0 for a closed-set net)."""

    known: np.ndarray
    dummies: np.ndarray

    def __post_init__(self) -> None:
        """Raises DataError for what are no such arrays."""
        check_floats("known", self.known, (None, None))
        check_floats(
            "dummies", self.dummies, (len(self.known), None), "; without dummies, np.zeros((N, 0), np.float32)"
        )

    def __len__(self) -> int:
        return len(self.known)

    def known_predictions(self) -> np.ndarray:
        """Closed-set prediction int64[N] in 0..K-1."""
        return self.known.argmax(axis=1)


@dataclass(frozen=True, eq=False)  # arrays have no one truth value
class EmbeddingTable(LogitTable):
    """Logits of N images, their embeddings phi(x) float32[N, d], and the known classes' classifier: weights
    float32[K, d] and biases float32[K].

    `centre` and `scale` float32[d] or [1] say what the classifier was trained on: `(phi(x) - centre) / scale`. Heads of
    a frozen backbone see its embeddings so, though their weights are for phi(x) itself.
    """

    embeddings: np.ndarray
    weights: np.ndarray
    biases: np.ndarray
    centre: np.ndarray = field(default_factory=lambda: NOT_CENTRED)
    scale: np.ndarray = field(default_factory=lambda: NOT_SCALED)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_floats("embeddings", self.embeddings, (len(self.known), None))
        num_known, size = self.known.shape[1], self.embeddings.shape[1]
        check_floats("weights", self.weights, (num_known, size))
        check_floats("biases", self.biases, (num_known,))
        for name in ("centre", "scale"):
            each = getattr(self, name)
            check_floats(name, each, (1,) if np.shape(each) == (1,) else (size,))


def check_floats(name: str, array: np.ndarray, shape: tuple[int | None, ...], hint: str = "") -> None:
    """Raises DataError for what is not a NumPy array of floats of this shape, of which None is any length."""
    is_array = isinstance(array, np.ndarray)
    if (
        not is_array
        or array.dtype.kind != "f"
        or array.ndim != len(shape)
        or any(need not in (None, have) for need, have in zip(shape, array.shape, strict=True))
    ):
        got = f"{array.dtype}{list(array.shape)}" if is_array else type(array).__name__
        need = ", ".join("any" if each is None else str(each) for each in shape)
        raise DataError(f"{name} got {got}; need a NumPy array float32[{need}]{hint}")


def select(table: LogitTable, rows: np.ndarray | slice) -> LogitTable:
    """The images at `rows` of logits, with their embeddings where there are any."""
    return replace(table, **{name: getattr(table, name)[rows] for name in ARRAYS if hasattr(table, name)})


def joined(tables: Sequence[LogitTable]) -> LogitTable:
    """Images of one network, in order; at least one table."""
    columns = [name for name in ARRAYS if hasattr(tables[0], name)]
    arrays = {name: np.concatenate([getattr(table, name) for table in tables]) for name in columns}
    return replace(tables[0], **arrays)


def save_logits(tables: dict[str, LogitTable], path: Path) -> None:
    """Write the tables of all parts into one .npz file."""
    arrays = {f"{part}_{head}": getattr(table, head) for part, table in tables.items() for head in ("known", "dummies")}
    np.savez(path, allow_pickle=False, **arrays)


def load_logits(path: Path) -> dict[str, LogitTable]:
    """Inverse of `save_logits`: val, development and test, and train where it is there."""
    with np.load(path) as arrays:
        parts = (*SCORED_PARTS, TRAIN) if f"{TRAIN}_known" in arrays else SCORED_PARTS
        return {part: LogitTable(arrays[f"{part}_known"], arrays[f"{part}_dummies"]) for part in parts}


@dataclass(frozen=True)
class FittingData:
    """What scores of a network are fitted to: tables of training and validation images, and the targets int64[N] of
    the first."""

    PARTS: ClassVar[tuple[str, ...]] = (TRAIN, "val")

    tables: Mapping[str, EmbeddingTable]
    targets: np.ndarray

    def save(self, path: Path) -> None:
        """Write it as .npz."""
        save_embeddings(self.tables, path, targets=self.targets)

    @classmethod
    def load(cls, path: Path) -> "FittingData":
        """Inverse of `save`."""
        with np.load(path) as arrays:
            return cls(load_embeddings(path), arrays["targets"])


def save_embeddings(tables: Mapping[str, EmbeddingTable], path: Path, **more: np.ndarray) -> None:
    """Write the tables of all parts, of one network, and `more` arrays into one .npz file."""
    arrays = {f"{part}_{name}": getattr(table, name) for part, table in tables.items() for name in ARRAYS}
    head = {name: getattr(next(iter(tables.values())), name) for name in HEAD}
    np.savez(path, allow_pickle=False, **head, **arrays, **more)


def load_embeddings(path: Path) -> dict[str, EmbeddingTable]:
    """Inverse of `save_embeddings`."""
    with np.load(path) as arrays:
        parts = [name.removesuffix("_known") for name in arrays if name.endswith("_known")]
        head = {name: arrays[name] for name in HEAD}
        return {part: EmbeddingTable(**{name: arrays[f"{part}_{name}"] for name in ARRAYS}, **head) for part in parts}
