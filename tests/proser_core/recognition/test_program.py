"""The exported program decides as the classifier does, where only torch is."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_tasks import make_classifier, random_images

from proser_core.errors import ConfigError
from proser_core.recognition.program import PROGRAM, export_program

RUN_ELSEWHERE = """
import json, sys, torch
import numpy as np
assert "proser_core" not in sys.modules
extra = {"classes.json": ""}
program = torch.export.load(sys.argv[1], extra_files=extra).module()
results = [program(torch.from_numpy(np.load("images.npy")[:count])) for count in (1, 2, 37)]
names = json.loads(extra["classes.json"])
np.savez("out.npz", **{f"{i}_{j}": value.numpy() for i, result in enumerate(results) for j, value in enumerate(result)})
print(json.dumps(names))
assert not any(name.startswith("proser") for name in sys.modules)
"""


@pytest.fixture(scope="module", params=["gap", "MSP"])
def exported(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[str, Path]:
    path = tmp_path_factory.mktemp("program") / PROGRAM
    export_program(make_classifier(request.param), path)
    return request.param, path


def test_it_decides_as_the_classifier_does_where_this_code_is_not(exported: tuple[str, Path], tmp_path: Path) -> None:
    score, program = exported
    images = random_images(37, seed=4)
    np.save(tmp_path / "images.npy", images)
    script = tmp_path / "elsewhere.py"
    script.write_text(RUN_ELSEWHERE)
    done = subprocess.run(
        [sys.executable, "-I", str(script), str(program)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["ant", "bee", "cow", "unknown"]
    with np.load(tmp_path / "out.npz") as got:
        for i, count in enumerate((1, 2, 37)):
            want = make_classifier(score).predict(images[:count])
            near = np.abs(want.unknown_scores) < 1e-4
            np.testing.assert_array_equal(got[f"{i}_0"][~near], want.indices[~near])
            np.testing.assert_allclose(got[f"{i}_1"], want.unknown_scores, atol=1e-4)
            np.testing.assert_allclose(got[f"{i}_2"], want.probabilities, atol=1e-4)
    assert {0, 1, 2, 3} & set(make_classifier(score).predict(images).indices.tolist()) > {3}


def test_it_takes_uint8_images_of_the_classifiers_size_alone(exported: tuple[str, Path]) -> None:
    program = torch.export.load(exported[1]).module()
    with pytest.raises(AssertionError, match=r"images.size\(\)\[1\] == 8"):
        program(torch.zeros(2, 9, 9, 3, dtype=torch.uint8))


def test_a_score_without_a_form_in_torch_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the score OpenMax has no form in torch"):
        export_program(make_classifier("OpenMax"), tmp_path / PROGRAM)
