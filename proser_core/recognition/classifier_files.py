"""A classifier as one self-sufficient folder: weights, arrays and a card in JSON. Nothing is pickled."""

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from proser_core.config import NetworkConfig, from_json, to_json
from proser_core.config.network import NO_WEIGHTS
from proser_core.digests import sha256_of
from proser_core.errors import CheckpointError, ConfigError, MissingPackageError, first_line
from proser_core.generative.networks import restored
from proser_core.generative.own_network import TaskShape
from proser_core.networks.ensembles import EnsembleNet
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet, add_placeholders, make_closed_set_net
from proser_core.networks.weights import load_weights, save_weights
from proser_core.recognition.class_report import ClassReport
from proser_core.recognition.logit_tables import FittingData
from proser_core.recognition.model_card import model_card
from proser_core.recognition.scores import (
    FURTHER_SCORES,
    OF_OWN_NETWORKS,
    SCORES,
    PlaceholderGap,
    ScoreFunction,
    placeholder_score,
)
from proser_core.recognition.trained_classifier import OwnArchitecture, TrainedClassifier
from proser_core.recognition.validation_scores import Proxy, ValidationScores
from proser_core.serialization import typed_values
from proser_core.store.files import read_json

FORMAT, FORMAT_OF_MARGINS = 7, 3
"""The format that is written, and that of release 0.1.0, whose scores have the other sign."""
FORMATS = range(FORMAT_OF_MARGINS, FORMAT + 1)  # 4 to 6, written between the releases, lack some of its parts
CARD, MODEL_CARD = "classifier.json", "MODEL_CARD.md"
WEIGHTS, SCORE, VALIDATION, PROXY = "weights.safetensors", "score.npz", "validation_scores.npz", "proxy.npz"
FITTING, STANDARDISATION = "embeddings.npz", "standardisation.npz"
MARGINS = "holdout.npz"
SAVING = ".saving-"  # begins the name of the folder in which a classifier is written
A_DAY = 24 * 3600.0  # seconds
FETCH_AGAIN = "; fetch the model again"
"""How the message about a classifier ends that is not as it was saved."""
PROXY_VALUES = ("bias", "results", "chose", "reported")  # of a proxy, but its scores
VALUES = (
    *("network", "image_size", "split", "class_names", "normalisation", "calibration", "recipe", "results"),
    *("controls", "notes", "mirror", "members"),
)
"""Fields of a `TrainedClassifier` that the card holds whole; the first formats lack the last four."""
NEEDED = {"sha256", "card_sha256", "num_dummies", *VALUES[:8]}
Classifier = TypeVar("Classifier")


def write_classifier(classifier: TrainedClassifier, folder: Path) -> None:
    """Weights (safetensors), arrays (.npz), the model card (Markdown) and everything else (JSON).

    A classifier that is in the folder is replaced once all is written; other files there stay. Raises ConfigError for a
    score that none of `SCORES` is.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigError(
            f"{error.filename} is a file, or below one; need a folder to save to: give another path"
        ) from None
    for left in folder.glob(f"{SAVING}*"):
        with suppress(FileNotFoundError):  # of a save that has just ended
            if time.time() - left.stat().st_mtime > A_DAY:  # by a process that was killed
                shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=SAVING, dir=folder) as temporary:
        _write(classifier, Path(temporary))
        for path in sorted(Path(temporary).iterdir(), key=lambda path: path.name == CARD):
            path.replace(folder / path.name)


def _write(classifier: TrainedClassifier, folder: Path) -> None:
    """Write a classifier into an empty folder."""
    net, score, proxy = classifier.net, classifier.score_function, classifier.proxy
    _check_registered(score)
    values = {field.name: getattr(score, field.name) for field in fields(score)}  # type: ignore[arg-type]
    values = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
    arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
    save_weights(net, folder / WEIGHTS)
    if arrays:
        np.savez_compressed(folder / SCORE, allow_pickle=False, **arrays)
    if classifier.validation_scores is not None:
        classifier.validation_scores.save(folder / VALIDATION)
    if proxy is not None:
        proxy.validation_scores.save(folder / PROXY)
    if classifier.fitting is not None:
        classifier.fitting.save(folder / FITTING)
    backbone = net.backbone if isinstance(net, ClosedSetNet | PlaceholderNet) else None
    if backbone is not None and backbone.standardised_by is not None:
        mean, std = (each.cpu().numpy() for each in backbone.standardised_by)
        np.savez(folder / STANDARDISATION, allow_pickle=False, mean=mean, std=std)
    card = {
        "format": FORMAT,
        "sha256": {path.name: sha256_of(path) for path in sorted(folder.iterdir())},
        "network": to_json(replace(classifier.network, weights_file="")),  # its weights are in the folder
        "own": None if classifier.own is None else vars(classifier.own),
        "num_dummies": classifier.num_dummies,
        "image_size": classifier.image_size,
        "split": to_json(classifier.split),
        "class_names": classifier.class_names,
        "normalisation": classifier.normalisation,
        "score": {"name": score.name, **{name: values[name] for name in values if name not in arrays}},
        "calibration": to_json(classifier.calibration),
        "recipe": classifier.recipe,
        "results": classifier.results,
        "controls": classifier.controls,
        "notes": classifier.notes,
        "classes": None if classifier.classes is None else to_json(classifier.classes),
        "proxy": None if proxy is None else {name: getattr(proxy, name) for name in PROXY_VALUES},
        "mirror": classifier.mirror,
    }
    if isinstance(net, EnsembleNet):
        members = [to_json(member) for member in classifier.members]
        card |= {"dummies_of_members": net.dummies_of_members, "members": members}
    card["card_sha256"] = _digest(card)
    (folder / CARD).write_text(json.dumps(card, indent=1), encoding="utf-8")
    (folder / MODEL_CARD).write_text(model_card(classifier), encoding="utf-8")


def _registered() -> dict[str, type[ScoreFunction]]:
    """The scores that a classifier can be loaded with, by name."""
    return {**SCORES, **FURTHER_SCORES, **OF_OWN_NETWORKS}


def _check_registered(score: ScoreFunction) -> None:
    """Raises ConfigError for a score that would be loaded as another one, or not at all."""
    kind, name = type(score), getattr(score, "name", None)
    if _registered().get(name) is not kind:  # type: ignore[arg-type]
        raise ConfigError(
            f"the score {name!r} of {kind.__name__} could not be loaded again: proser_core.SCORES has "
            f"{'another one' if name in (*_registered(),) else 'none'} of that name. Give the class a `name` of its "
            f"own, add it as SCORES[{kind.__name__}.name] = {kind.__name__}, and save again"
        )


def read_classifier(folder: Path, make: Callable[..., Classifier]) -> Classifier:
    """The classifier that was written, by what makes it of the fields of a `TrainedClassifier`.

    Raises CheckpointError for another format, for a file that is not the one that was saved, for a value of another
    type or range, for parts that do not belong together, and for a backbone of a package that is not there. Raises
    PermissionError for a file that may not be read.
    """
    card = _read_card(folder)
    try:
        _check_files(folder, card)
        classifier = make(**_parts(folder, card))
    except (CheckpointError, PermissionError):
        raise
    except MissingPackageError as error:
        raise CheckpointError(f"{folder}: {error}") from error
    except Exception as error:  # values of any kind may stand in a card whose digests were made again
        raise CheckpointError(f"{folder / CARD} is damaged: {first_line(error)}{FETCH_AGAIN}") from error
    if _digest(card) != card["card_sha256"]:  # last: what can be named was named above
        raise CheckpointError(f"{folder / CARD} was changed after it was saved{FETCH_AGAIN}")
    return classifier


def _parts(folder: Path, card: Mapping[str, Any]) -> dict[str, Any]:
    values = typed_values(TrainedClassifier, {name: card[name] for name in VALUES if name in card}, "card")
    own = from_json(OwnArchitecture, card["own"]) if card.get("own") else None
    saved_scores = next((folder / name for name in (VALIDATION, MARGINS) if name in card["sha256"]), None)
    return values | {
        "net": _net(folder, card, values["network"], values["split"].num_known, own),
        "score_function": _read_score(folder, card),
        "validation_scores": ValidationScores.load(saved_scores) if saved_scores else None,
        "proxy": _read_proxy(folder, card),
        "own": own,
        "fitting": FittingData.load(folder / FITTING) if FITTING in card["sha256"] else None,
        "classes": from_json(ClassReport, card["classes"]) if card.get("classes") else None,
    }


def _net(
    folder: Path, card: Mapping[str, Any], network: NetworkConfig, num_known: int, own: OwnArchitecture | None
) -> nn.Module:
    size, num_dummies = card["image_size"], card["num_dummies"]
    if network.is_of_library:  # which may no longer have weights of that name; they are in the folder
        network = replace(network, weights=NO_WEIGHTS)
    if own is not None:
        return restored(own.name, own.schedule, TaskShape(num_known, size), folder / WEIGHTS)

    def with_placeholders(count: int) -> PlaceholderNet:
        return add_placeholders(make_closed_set_net(network, num_known, size, seed=0), count, seed=0)

    net: ClosedSetNet | PlaceholderNet
    if card.get("dummies_of_members"):
        net = EnsembleNet([with_placeholders(count) for count in card["dummies_of_members"]])
    elif num_dummies:
        net = with_placeholders(num_dummies)
    else:
        net = make_closed_set_net(network, num_known, size, seed=0)
    load_weights(net, folder / WEIGHTS)
    if STANDARDISATION in card["sha256"]:
        with np.load(folder / STANDARDISATION) as arrays:
            net.backbone.standardised_by = torch.from_numpy(arrays["mean"]), torch.from_numpy(arrays["std"])
    return net


def _read_score(folder: Path, card: Mapping[str, Any]) -> ScoreFunction:
    if card["format"] == FORMAT_OF_MARGINS:
        return placeholder_score(from_json(PlaceholderGap, card["margin"]).dummy_weight)
    values = dict(card["score"])
    name = values.pop("name", None)
    scores = _registered()
    if name not in (*scores,):
        raise CheckpointError(
            f"{folder / CARD} is scored by {name!r}, and there is {', '.join(scores)}; import the module that adds it "
            "to proser_core.SCORES before the classifier is loaded"
        )
    if SCORE in card["sha256"]:
        with np.load(folder / SCORE) as arrays:
            values |= dict(arrays)
    return from_json(scores[name], values)


def _read_proxy(folder: Path, card: Mapping[str, Any]) -> Proxy | None:
    values = card.get("proxy")  # the first classifiers of format 3 lack the field
    if values is None:
        return None
    return Proxy(ValidationScores.load(folder / PROXY), **typed_values(Proxy, values, "card.proxy"))


def _read_card(folder: Path) -> dict[str, Any]:
    for name in (CARD, WEIGHTS):
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} is not an open-set classifier: {name} is missing")
    try:
        card = read_json(folder / CARD)
    except ValueError as error:
        raise CheckpointError(f"{folder / CARD} is not JSON ({error}){FETCH_AGAIN}") from error
    found = card.get("format") if isinstance(card, dict) else None
    if found not in FORMATS:
        older = isinstance(found, int) and found < FORMAT_OF_MARGINS
        raise CheckpointError(
            f"{folder / CARD} has format {found!r}; this version reads formats {min(FORMATS)} to {max(FORMATS)}. "
            + ("The same `proser run` again, with its storage, writes it in this format" if older else "Update proser")
        )
    missing = sorted({*NEEDED, "margin" if found == FORMAT_OF_MARGINS else "score"} - set(card))
    if missing:
        raise CheckpointError(f"{folder / CARD} lacks {', '.join(missing)}{FETCH_AGAIN}")
    return card


def _check_files(folder: Path, card: dict[str, Any]) -> None:
    for name, digest in card["sha256"].items():
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder} is not whole: {name} is missing{FETCH_AGAIN}")
        if sha256_of(folder / name) != digest:
            raise CheckpointError(f"{folder / name} was changed after it was saved{FETCH_AGAIN}")


def _digest(card: Mapping[str, Any]) -> str:
    """SHA-256 of the card's values but itself."""
    values = {name: value for name, value in card.items() if name != "card_sha256"}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
