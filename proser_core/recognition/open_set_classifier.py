"""`OpenSetClassifier`: a trained, calibrated model as one self-sufficient folder."""

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from proser_core.class_names import UNKNOWN, check_class_names
from proser_core.config import NetworkConfig, from_json, to_json
from proser_core.data.augmentation.batches import Normalisation
from proser_core.data.decoding import to_rgb_square
from proser_core.data.splits.class_split import ClassSplit
from proser_core.errors import CheckpointError, ConfigError, DataError
from proser_core.networks.nets import PlaceholderNet, add_placeholders, make_closed_set_net
from proser_core.networks.weights import load_weights, save_weights
from proser_core.recognition.calibration import Calibration
from proser_core.recognition.logits import LogitTable, compute_logits
from proser_core.recognition.scoring import PlaceholderScore, score, unknown_probabilities
from proser_core.recognition.validation_scores import Proxy, ValidationScores

FORMAT = 4
CARD, WEIGHTS = "classifier.json", "weights.safetensors"
SCORES, PROXY = "validation_scores.npz", "proxy.npz"
SCORES_3 = "holdout.npz"
SCORE_FIELD = {3: "margin", FORMAT: "score_function"}
"""By the formats that are read; the scores of format 3 are margins, with the other sign."""
PROXY_VALUES = ("bias", "results", "chose", "reported")  # of a proxy, but its scores
NEEDED = {
    "sha256",
    "card_sha256",
    "network",
    "num_dummies",
    "image_size",
    "split",
    "class_names",
    "normalisation",
    "calibration",
    "recipe",
    "results",
}


@dataclass(frozen=True)
class Predictions:
    """Decisions on N images.

    labels: class names, or "unknown"; indices int64[N] in 0..K (K unknown); unknown_scores
    float32[N] in logits, above 0 for unknown; probabilities float64[N, K+1], the last column for
    unknown.
    """

    labels: list[str]
    indices: np.ndarray
    unknown_scores: np.ndarray
    probabilities: np.ndarray

    def part(self, begin: int, end: int) -> "Predictions":
        """Those of the images `begin` to `end`, without the last."""
        rows = slice(begin, end)
        return Predictions(self.labels[rows], self.indices[rows], self.unknown_scores[rows], self.probabilities[rows])

    def columns(self, class_names: Sequence[str]) -> dict[str, Any]:
        """As columns of a table, one row an image: label, unknown, unknown_score, p_CLASS ..., p_unknown."""
        names = [f"p_{name}" for name in (*class_names, UNKNOWN)]
        return {
            "label": self.labels,
            "unknown": self.indices == len(class_names),
            "unknown_score": self.unknown_scores.astype(np.float64),
            **dict(zip(names, self.probabilities.T, strict=True)),
        }


@dataclass(frozen=True)
class OpenSetClassifier:
    """Names the known class of an image, or says that it is unknown.

    `results` are its metrics by name, as tracking has them, measured with the calibration that it was trained with;
    `validation_scores` are those of validation images and development unknowns, `proxy` is the same training with
    classes held out. All three may be missing.
    """

    net: PlaceholderNet
    network: NetworkConfig
    image_size: int
    split: ClassSplit
    class_names: tuple[str, ...]
    normalisation: Normalisation
    score_function: PlaceholderScore
    calibration: Calibration
    recipe: dict[str, Any]
    results: dict[str, float] = field(default_factory=dict)
    validation_scores: ValidationScores | None = None
    proxy: Proxy | None = None

    def __post_init__(self) -> None:
        check_class_names(self.class_names)

    def predict(self, images: np.ndarray, device: str = "cpu") -> Predictions:
        """Classify uint8 images [N, H, W, 3] or [N, H, W]; another size is resampled.

        Raises DataError for images of another type or shape.
        """
        logits = self.logits(images, device)
        scores = score(logits, self.score_function, self.calibration)
        names = (*self.class_names, UNKNOWN)
        return Predictions(
            labels=[names[index] for index in scores.predictions],
            indices=scores.predictions,
            unknown_scores=scores.unknown_scores,
            probabilities=unknown_probabilities(logits, self.score_function, self.calibration.bias),
        )

    def logits(self, images: np.ndarray, device: str = "cpu") -> LogitTable:
        """What `predict` decides by, of the same images."""
        return compute_logits(self.net, self._fit_size(images), self.normalisation, torch.device(device))

    def no_predictions(self) -> Predictions:
        """What `predict` would give for no image."""
        return Predictions([], np.zeros(0, np.int64), np.zeros(0, np.float32), np.zeros((0, len(self.class_names) + 1)))

    def _fit_size(self, images: np.ndarray) -> np.ndarray:
        shape = (self.image_size, self.image_size, 3)
        grey = images.ndim == 3 and images.shape[2] != 3  # [H, W, 3] is one RGB image, not H grey ones
        if (
            images.dtype != np.uint8
            or not (grey or (images.ndim == 4 and images.shape[3] in (1, 3)))
            or not images.size
        ):
            raise DataError(
                f"got images of {images.dtype}{list(images.shape)}; need at least one, as uint8[N, height, width, 3] "
                "or grey as uint8[N, height, width]"
            )
        if images.shape[1:] == shape:
            return images
        squeezed = images[..., 0] if images.ndim == 4 and images.shape[3] == 1 else images
        return np.stack([to_rgb_square(Image.fromarray(image), self.image_size) for image in squeezed])

    def save(self, folder: Path) -> None:
        """Write weights (safetensors), validation scores (.npz) and everything else (JSON) into `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        save_weights(self.net, folder / WEIGHTS)
        files = [WEIGHTS]
        if self.validation_scores is not None:
            self.validation_scores.save(folder / SCORES)
            files.append(SCORES)
        if self.proxy is not None:
            self.proxy.validation_scores.save(folder / PROXY)
            files.append(PROXY)
        card = {
            "format": FORMAT,
            "sha256": {name: _sha256(folder / name) for name in files},
            "network": to_json(replace(self.network, weights_file="")),  # the weights are beside it
            "split_point": self.net.backbone.split_point,
            "num_dummies": self.net.dummies.out_features,
            "image_size": self.image_size,
            "split": to_json(self.split),
            "class_names": self.class_names,
            "normalisation": self.normalisation,
            "score_function": to_json(self.score_function),
            "calibration": to_json(self.calibration),
            "recipe": self.recipe,
            "results": self.results,
            "proxy": None if self.proxy is None else {name: getattr(self.proxy, name) for name in PROXY_VALUES},
        }
        card["card_sha256"] = _digest(card)
        (folder / CARD).write_text(json.dumps(card, indent=1))

    @classmethod
    def load(cls, folder: str | Path) -> "OpenSetClassifier":
        """Read what `save` wrote; nothing is unpickled.

        Raises CheckpointError for another format, for a file that is not the one that was saved, and for parts
        that do not belong together.
        """
        folder = Path(folder)
        card = _read_card(folder)
        _check_files(folder, card)
        try:
            split = from_json(ClassSplit, card["split"])
            network = from_json(NetworkConfig, card["network"])
            score_function = from_json(PlaceholderScore, card[SCORE_FIELD[card["format"]]])
            calibration = from_json(Calibration, card["calibration"])
        except (ConfigError, DataError) as error:
            raise CheckpointError(f"{folder / CARD} is damaged: {error}; fetch the model again") from error
        if not math.isfinite(calibration.bias):
            raise CheckpointError(f"{folder / CARD}: the calibration's bias is {calibration.bias!r}; need a number")
        if len(card["class_names"]) != split.num_known:
            raise CheckpointError(
                f"{folder / CARD} names {len(card['class_names'])} classes; its network knows {split.num_known}"
            )
        closed_set = make_closed_set_net(network, split.num_known, card["image_size"], seed=0)
        net = add_placeholders(closed_set, card["num_dummies"], seed=0)
        load_weights(net, folder / WEIGHTS)
        if _digest(card) != card["card_sha256"]:  # last: what can be named was named above
            raise CheckpointError(f"{folder / CARD} was changed after it was saved; fetch the model again")
        mean, std = card["normalisation"]
        return cls(
            net=net,
            network=network,
            image_size=card["image_size"],
            split=split,
            class_names=tuple(card["class_names"]),
            normalisation=(tuple(mean), tuple(std)),
            score_function=score_function,
            calibration=calibration,
            recipe=card["recipe"],
            results=card["results"],
            validation_scores=_load_scores(folder, card),
            proxy=_load_proxy(folder, card),
        )


def _load_scores(folder: Path, card: dict[str, Any]) -> ValidationScores | None:
    saved = next((name for name in (SCORES, SCORES_3) if name in card["sha256"]), None)
    return ValidationScores.load(folder / saved) if saved else None


def _load_proxy(folder: Path, card: dict[str, Any]) -> Proxy | None:
    values = card.get("proxy")  # classifiers of this format without the field came before it
    if values is None:
        return None
    scores = ValidationScores.load(folder / PROXY)
    return Proxy(scores, values["bias"], values["results"], tuple(values["chose"]), tuple(values["reported"]))


def _read_card(folder: Path) -> dict[str, Any]:
    for name in (CARD, WEIGHTS):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} is not an open-set classifier: {name} is missing")
    try:
        card = json.loads((folder / CARD).read_text())
    except ValueError as error:  # JSONDecodeError or UnicodeDecodeError
        raise CheckpointError(f"{folder / CARD} is not JSON ({error}); fetch the model again") from error
    found = card.get("format") if isinstance(card, dict) else None
    if found not in (*SCORE_FIELD,):
        older = isinstance(found, int) and found < FORMAT
        raise CheckpointError(
            f"{folder / CARD} has format {found!r}; this version reads formats {' and '.join(map(str, SCORE_FIELD))}. "
            + ("The same `proser run` again, with its storage, writes it in this format" if older else "Update proser")
        )
    missing = sorted({*NEEDED, SCORE_FIELD[found]} - set(card))
    if missing:
        raise CheckpointError(f"{folder / CARD} lacks {', '.join(missing)}; fetch the model again")
    return card


def _check_files(folder: Path, card: dict[str, Any]) -> None:
    for name, digest in card["sha256"].items():
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} is not whole: {name} is missing; fetch the model again")
        if _sha256(folder / name) != digest:
            raise CheckpointError(f"{folder / name} was changed after it was saved; fetch the model again")


def _digest(card: dict[str, Any]) -> str:
    """SHA-256 of the card's values but itself."""
    values = {name: value for name, value in card.items() if name != "card_sha256"}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
