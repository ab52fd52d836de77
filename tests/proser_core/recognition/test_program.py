"""The exported program decides as the classifier does, where only torch is."""

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from small_tasks import make_classifier, random_images
from torch import Tensor, nn

from proser_core.errors import ConfigError
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.program import PROGRAM, export_program
from proser_core.recognition.scores import EmbeddingScore
from proser_core.recognition.scores.embedding_score import embeddings_of

RUN_ELSEWHERE = """
import json, sys, torch
import numpy as np
assert "proser_core" not in sys.modules
images, results, names = torch.from_numpy(np.load("images.npy")), {}, []
for path in sys.argv[1:]:
    extra = {"classes.json": ""}
    program = torch.export.load(path, extra_files=extra).module()
    for count in (1, 2, 37):
        results |= {f"{path}_{count}_{place}": value.numpy() for place, value in enumerate(program(images[:count]))}
    names.append(json.loads(extra["classes.json"]))
np.savez("out.npz", **results)
print(json.dumps(names))
assert not any(name.startswith("proser") for name in sys.modules)
"""
SCORES = ("gap", "MSP")


@pytest.mark.slow
def test_it_decides_as_the_classifier_does_where_this_code_is_not(tmp_path: Path) -> None:
    for score in SCORES:
        export_program(make_classifier(score), tmp_path / f"{score}.pt2")
    images = random_images(37, seed=4)
    np.save(tmp_path / "images.npy", images)
    (tmp_path / "elsewhere.py").write_text(RUN_ELSEWHERE)
    command = [sys.executable, "-I", "elsewhere.py", *(f"{score}.pt2" for score in SCORES)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [["ant", "bee", "cow", "unknown"]] * len(SCORES)
    with np.load(tmp_path / "out.npz") as got:
        for score, count in itertools.product(SCORES, (1, 2, 37)):
            want, place = make_classifier(score).predict(images[:count]), f"{score}.pt2_{count}"
            near = np.abs(want.unknown_scores) < 1e-4
            np.testing.assert_array_equal(got[f"{place}_0"][~near], want.indices[~near])
            np.testing.assert_allclose(got[f"{place}_1"], want.unknown_scores, atol=1e-4)
            np.testing.assert_allclose(got[f"{place}_2"], want.probabilities, atol=1e-4)
            assert count < 37 or {0, 1, 2, 3} & set(want.indices.tolist()) > {3}


def test_it_takes_uint8_images_of_the_classifiers_size_alone(tmp_path: Path) -> None:
    export_program(make_classifier("MSP"), tmp_path / PROGRAM)
    program = torch.export.load(tmp_path / PROGRAM).module()
    with pytest.raises(AssertionError, match=r"images.size\(\)\[1\] == 8"):
        program(torch.zeros(2, 9, 9, 3, dtype=torch.uint8))


class OfTable(EmbeddingScore):
    """It reads embeddings as NumPy arrays."""

    name = "table"

    def of_table(self, logits: LogitTable) -> np.ndarray:
        return -np.abs(embeddings_of(logits, self.name).embeddings).max(axis=1)


def test_a_score_without_a_form_in_torch_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the score OpenMax has no form in torch"):
        export_program(make_classifier("OpenMax"), tmp_path / PROGRAM)
    with pytest.raises(ConfigError, match="the score table has no form in torch"):
        export_program(replace(make_classifier("cosine"), score_function=OfTable()), tmp_path / PROGRAM)


class Counts(nn.Module):
    """A network whose number of images is a constant to torch."""

    def forward(self, images: Tensor) -> Tensor:
        return images.mean((2, 3)) + torch.full((len(images), 1), 0.5)


def test_a_network_that_takes_one_number_of_images_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the network \w+ cannot be exported \([^\n]*\); use `proser serve`$"):
        export_program(replace(make_classifier("MSP"), net=Counts()), tmp_path / PROGRAM)
    assert not (tmp_path / PROGRAM).exists()
