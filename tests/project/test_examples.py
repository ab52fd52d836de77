"""The examples and the README's Python run as they are written."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}  # beside the other half of the suite


def run(folder: Path, *arguments: str) -> str:
    """What a script prints that is run in this folder, as a user would."""
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_arrays_become_a_classifier_that_finds_unknown_digits(tmp_path: Path) -> None:
    printed = run(tmp_path, str(ROOT / "examples/train_on_arrays.py"))
    accuracy, auroc = map(float, re.findall(r":\s+(0\.\d+)$", printed, re.MULTILINE))
    assert accuracy > 0.9
    assert auroc > 0.8


@pytest.mark.parametrize("script", ["score_your_own_logits.py", "add_a_method.py", "train_your_own_network.py"])
def test_scores_are_compared_in_a_table(tmp_path: Path, script: str) -> None:
    lines = run(tmp_path, str(ROOT / "examples" / script)).splitlines()
    values = [[float(value) for value in re.findall(r"\d\.\d+", line)] for line in lines[1:]]
    assert "AUROC" in lines[0]
    assert len(values) >= 2
    assert all(0.5 < value <= 1 for row in values for value in row)


def test_the_python_of_the_readme_classifies_and_saves(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert "unknown" in run(tmp_path, "-c", code)
    assert (tmp_path / "digits-classifier/MODEL_CARD.md").is_file()
