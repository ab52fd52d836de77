"""The card of a saved classifier, changed by hand: refused with what is wrong, or it predicts."""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tasks import make_classifier, random_images

from proser_core import OpenSetClassifier
from proser_core.errors import CheckpointError, ProserError
from proser_core.recognition.classifier_files import CARD, _digest


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    make_classifier().save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    return shutil.copytree(saved, tmp_path / "model")


PARTS = "calibration sha256 card_sha256 network score num_dummies image_size split class_names normalisation recipe"
WAS_CHANGED = f"{CARD} was changed after it was saved"
CHANGED_CARDS = [
    *((lambda card, name=name: card.pop(name), f"{CARD} lacks {name}") for name in PARTS.split()),
    *((lambda card, name=name: card["calibration"].pop(name), name) for name in ("bias", "target_rate", "interval")),
    *((lambda card, bias=bias: card["calibration"].update(bias=bias), "bias") for bias in (None, float("nan"), "high")),
    (lambda card: card.update(calibration=None), "calibration is None"),
    (lambda card: card["calibration"].update(bias=card["calibration"]["bias"] + 1), WAS_CHANGED),
    (lambda card: card["class_names"].reverse(), WAS_CHANGED),
    (lambda card: card["normalisation"][0].reverse(), WAS_CHANGED),
    (lambda card: card["recipe"].update(seed=7), WAS_CHANGED),
    (lambda card: card.update(format=2), "The same `proser run` again, with its storage, writes it in this"),
    *(
        (lambda card, number=number: card.update(format=number), f"has format {number!r}; .* reads formats 3 to 7")
        for number in (0, 2, None, "3")
    ),
    (lambda card: card.update(num_dummies=3), r"dummies.weight has shape \(2, 128\), the network \(3, 128\)"),
]


@pytest.mark.parametrize(("change", "message"), CHANGED_CARDS, ids=[message for _, message in CHANGED_CARDS])
def test_a_changed_card_is_refused_with_what_is_wrong(folder, change, message):
    card = json.loads((folder / CARD).read_text())
    change(card)
    (folder / CARD).write_text(json.dumps(card))
    with pytest.raises(CheckpointError, match=message):
        OpenSetClassifier.load(folder)


def save_with_new_digest(card: dict, folder: Path) -> None:
    (folder / CARD).write_text(json.dumps(card | {"card_sha256": _digest(card)}))


VALUES_OF_NO_CLASSIFIER = [
    ("class_names", ["ant", "bee"], "class_names got 2 names; need 3"),
    ("class_names", ["ant", "bee", "ant"], "'ant' would mean two things"),
    ("class_names", ["ant", "bee", 3], r"class_names\[2\] is 3; need a string"),
    ("class_names", "ant", "class_names is 'ant'; need a list"),
    ("image_size", 4, "image_size got 4; need 8 to 4,096 pixels"),
    ("image_size", 1_000_000, "image_size got 1000000; need"),
    ("image_size", 16.5, "image_size is 16.5; need a whole number"),
    ("image_size", True, "image_size is True; need a whole number"),
    ("normalisation", [[0.5, 0.5, 0.5], [0.2, 0.0, 0.2]], "normalisation got .* need .* deviations above 0"),
    ("normalisation", [[0.5, 0.5, float("nan")], [0.2, 0.2, 0.2]], "normalisation got .* need finite means"),
    ("normalisation", [[0.5], [0.2]], r"normalisation\[0\] has 1 values; need 3"),
    ("mirror", "no", "mirror is 'no'; need true or false"),
    ("results", {"dev/auroc": "high"}, "results.dev/auroc is 'high'; need a number"),
    ("controls", [1], r"controls is \[1\]; need an object"),
    ("notes", {"data": 1}, "notes.data is 1; need a string"),
    ("recipe", "cifar100", "recipe is 'cifar100'; need an object"),
    ("members", [{"trial": 1}], r"members\[0\].trial is 1; need a string"),
    ("classes", {"class_names": ["ant"], "cells": [[0, 2, 5]]}, r"counts \(0, 2, 5\); need classes from 0 to 1"),
    ("calibration", {"target_rate": 95}, "need a finite bias, and rates from 0 to 1"),
    ("calibration", {"bias": float("inf")}, "need a finite bias"),
    ("score", {"name": "gap", "dummy_weight": float("nan")}, "score_function got .* need finite numbers"),
]


@pytest.mark.parametrize(("name", "value", "message"), VALUES_OF_NO_CLASSIFIER)
def test_a_value_that_a_card_cannot_have_is_refused_though_its_digest_was_made_again(folder, name, value, message):
    card = json.loads((folder / CARD).read_text())
    card[name] = card[name] | value if name == "calibration" else value
    save_with_new_digest(card, folder)
    with pytest.raises(CheckpointError, match=rf"{CARD} is damaged: .*{message}"):
        OpenSetClassifier.load(folder)


@settings(max_examples=60)
@given(st.data())
def test_a_card_with_other_values_and_a_digest_made_again_predicts_or_is_refused_with_its_place(saved, data):
    card = json.loads((saved / CARD).read_text())
    place, name = card, data.draw(st.sampled_from(sorted(card)))
    while isinstance(place[name], dict) and place[name] and data.draw(st.booleans()):
        place = place[name]
        name = data.draw(st.sampled_from(sorted(place)))
    place[name] = data.draw(st.sampled_from([None, -1, 0, 1e400, "x", "16", [], [1], {}, {"a": 1}, True]))
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(saved, folder, dirs_exist_ok=True)
        save_with_new_digest(card, Path(folder))
        said = folder
        try:
            assert np.isfinite(OpenSetClassifier.load(folder).predict(random_images(1)).unknown_scores).all()
        except ProserError as error:
            said = str(error)
        assert folder in said
