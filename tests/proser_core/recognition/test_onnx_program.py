"""The program in ONNX decides as the classifier does, where only ONNX Runtime is."""

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_tasks import NORMALISATION, make_classifier, random_images
from torch import Tensor

from proser_core.errors import ConfigError
from proser_core.recognition import onnx_program
from proser_core.recognition.onnx_program import check_packages, export_onnx, load_onnx
from proser_core.recognition.program_check import check_program
from proser_core.recognition.scores import ScoreFunction

RUN_ELSEWHERE = """
import json, sys, onnxruntime
import numpy as np
session = onnxruntime.InferenceSession("program.onnx")
images, results = np.load("images.npy"), {}
for count in (1, 2, 37):
    outputs = session.run(None, {"images": images[:count]})
    results |= {f"{count}_{place}": value for place, value in enumerate(outputs)}
np.savez("out.npz", **results)
print(json.dumps(session.get_modelmeta().custom_metadata_map))
assert [each.shape[0] for each in (*session.get_inputs(), *session.get_outputs())] == 4 * ["batch"]
assert not any(name.startswith(("proser", "torch")) for name in sys.modules)
"""


@pytest.mark.parametrize("members", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_it_decides_as_the_classifier_does_where_this_code_and_torch_are_not(members: int, tmp_path: Path) -> None:
    classifier, images = make_classifier("gap", members=members), random_images(37, seed=4)
    export_onnx(classifier, tmp_path / "program.onnx")
    np.save(tmp_path / "images.npy", images)
    (tmp_path / "elsewhere.py").write_text(RUN_ELSEWHERE)
    command = [sys.executable, "-I", "elsewhere.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {name: json.loads(value) for name, value in json.loads(done.stdout).items()} == {
        "classes": ["ant", "bee", "cow", "unknown"],
        "image_size": 8,
        "mean": list(NORMALISATION[0]),
        "std": list(NORMALISATION[1]),
        "score": "gap",
        "bias": classifier.calibration.bias,
        "target_rate": 0.8,
    }
    with np.load(tmp_path / "out.npz") as got:
        for count in (1, 2, 37):
            want = classifier.predict(images[:count])
            near = np.abs(want.unknown_scores) < 1e-4
            np.testing.assert_array_equal(got[f"{count}_0"][~near], want.indices[~near])
            np.testing.assert_allclose(got[f"{count}_1"], want.unknown_scores, atol=1e-4)
            np.testing.assert_allclose(got[f"{count}_2"], want.probabilities, atol=1e-4)
            assert count < 37 or {0, 1, 2, 3} & set(want.indices.tolist()) > {3}


@pytest.mark.slow
def test_mirrored_images_embeddings_and_distances_are_in_it(tmp_path: Path) -> None:
    classifier = make_classifier("relative-Mahalanobis", mirror=True)
    export_onnx(classifier, tmp_path / "program.onnx")
    found = check_program(classifier, load_onnx(tmp_path / "program.onnx"), random_images(37, seed=4))
    assert 0 < found.unknown < 37


@dataclass(frozen=True)
class Odd(ScoreFunction):
    """A score of an operator that ONNX lacks."""

    name = "odd"

    def in_torch(self, known: Tensor, dummies: Tensor) -> Tensor:
        return torch.special.bessel_j0(known.amax(1))


@pytest.mark.parametrize("score", ["OpenMax", "odd"])
@pytest.mark.slow
def test_a_score_that_has_no_such_form_is_refused_in_one_line_by_name(score: str, tmp_path: Path) -> None:
    classifier = (
        make_classifier("OpenMax") if score == "OpenMax" else replace(make_classifier("MSP"), score_function=Odd())
    )
    with pytest.raises(ConfigError, match=f"the score {score} .*has no form in [^\\n\x1b]*$"):
        export_onnx(classifier, tmp_path / "program.onnx")
    assert list(tmp_path.iterdir()) == []


def test_packages_that_are_missing_are_named_with_what_installs_them(monkeypatch: pytest.MonkeyPatch) -> None:
    check_packages()
    monkeypatch.setattr(onnx_program, "PACKAGES", ("onnx", "onnx_of_another_name"))
    with pytest.raises(ConfigError, match=r"ONNX needs onnx_of_another_name: pip install onnx_of_another_name"):
        check_packages()
