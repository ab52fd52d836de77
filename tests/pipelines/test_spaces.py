"""The search spaces, expanded by Tune's own generator."""

from itertools import product
from pathlib import Path

import pytest

import tune_spaces
from pipelines.recipes import digits
from pipelines.stages.sweep import apply_point
from proser_core.errors import ConfigError
from tune_spaces import check_name, describe, expand, space_names


def test_trade_off_is_the_grid_of_25_points_of_the_paper() -> None:
    points = [(point["finetune"]["beta"], point["finetune"]["gamma"]) for point in expand("trade_off")]
    weights = (0.0, 0.01, 0.1, 1.0, 10.0)
    assert len(points) == 25
    assert set(points) == set(product(weights, weights))
    assert (1.0, 0.1) in points


@pytest.mark.parametrize("name", space_names())
def test_every_space_has_a_docstring_and_points_that_are_recipes(name: str) -> None:
    assert len(describe(name)) > 10
    points = expand(name)
    assert points
    made = [apply_point(digits(), point) for point in points]
    assert len(set(map(str, made))) == len(points)


@pytest.mark.parametrize("typo", ["trade_of", "tradeoff", "trade-off"])
def test_a_typo_gets_the_nearest_name(typo: str) -> None:
    with pytest.raises(ConfigError, match="did you mean 'trade_off'"):
        check_name(typo)
    with pytest.raises(ConfigError, match="did you mean 'trade_off'"):
        expand(typo)


def test_a_point_with_a_field_that_recipes_lack_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"finetune\.gama.*lacks"):
        apply_point(digits(), {"finetune": {"gama": 1.0}})


def test_a_new_file_is_a_new_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '"""Two."""\nfrom ray import tune\n\ndef param_space():\n    return {"seed": tune.grid_search([3, 4])}\n'
    (tmp_path / "two_seeds.py").write_text(text)
    monkeypatch.setattr(tune_spaces, "FOLDER", tmp_path)
    monkeypatch.setattr(tune_spaces, "__path__", [str(tmp_path)])
    assert space_names() == ["two_seeds"]
    assert describe("two_seeds") == "Two."
    assert [point["seed"] for point in expand("two_seeds")] == [3, 4]


def test_an_empty_space_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nothing.py").write_text('"""None."""\n\ndef param_space():\n    return {}\n')
    monkeypatch.setattr(tune_spaces, "FOLDER", tmp_path)
    monkeypatch.setattr(tune_spaces, "__path__", [str(tmp_path)])
    with pytest.raises(ConfigError, match="empty"):
        expand("nothing")
