"""The search spaces, expanded by Tune's own generator."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import tune_spaces
from pipelines.recipes import cifar100_cpu, digits
from pipelines.workflow.stage import decisive
from pipelines.workflow.training import apply_point, finetunes_of, points_of, stoppable_points
from proser_core.errors import ConfigError
from proser_core.jobs.trials import control_of, plan_trials
from proser_core.store.store import Artefact, Store
from tune_spaces import Claim, Published, check_name, describe, draws_values, expand, sample, space_info, space_names


def test_trade_off_is_the_grid_of_25_points_of_the_paper() -> None:
    points = [(point["finetune"]["beta"], point["finetune"]["gamma"]) for point in expand("trade_off")]
    weights = (0.0, 0.01, 0.1, 1.0, 10.0)
    assert len(points) == 25
    assert set(points) == set(product(weights, weights))
    assert (1.0, 0.1) in points


def test_the_points_for_own_images_are_both_placeholders_without_and_with_their_weights() -> None:
    points = [(point["finetune"]["beta"], point["finetune"]["gamma"]) for point in expand("own_images")]
    assert points == [(beta, gamma) for gamma in (0.0, 0.1, 1.0) for beta in (0.0, 1.0)]


@pytest.mark.parametrize("name", space_names())
def test_every_space_has_a_docstring_and_points_that_are_recipes(name: str) -> None:
    assert len(describe(name)) > 10
    points = sample(name, 8, seed=0) if draws_values(name) else expand(name)
    assert points
    made = [apply_point(cifar100_cpu(), point, name) for point in points]
    assert len(set(made)) == len(points)


@pytest.mark.parametrize("typo", ["trade_of", "tradeoff", "trade-off"])
def test_a_typo_gets_the_nearest_name(typo: str) -> None:
    for look_up in (check_name, expand):
        with pytest.raises(ConfigError, match="did you mean 'trade_off'"):
            look_up(typo)


def test_a_point_with_a_field_that_recipes_lack_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"no field of finetune is called 'gama'; did you mean 'gamma'"):
        apply_point(digits(), {"finetune": {"gama": 1.0}}, "mine")


@pytest.mark.parametrize("point", [{"data": {"split_index": 1}}, {"seed": 3}, {"finetune": {"objective": "proser"}}])
def test_a_point_that_sets_what_trials_share_is_refused(point: dict) -> None:
    with pytest.raises(ConfigError, match="it may set finetune"):
        apply_point(digits(), point, "mine")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (3, "'mine': finetune is 3; need an object of its fields"),
        ({"lr": "0.1"}, r"'mine': finetune\.lr is '0\.1'; need a number"),
        ({"num_dummies": 2.5}, r"'mine': finetune\.num_dummies is 2\.5; need a whole number"),
        ({"epochs": 0}, r"'mine': finetune\.epochs is 0"),
    ],
)
def test_a_point_with_a_value_that_does_not_suit_is_refused(fields: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        apply_point(digits(), {"finetune": fields}, "mine")


def test_a_point_that_does_not_suit_the_recipe_is_refused() -> None:
    recipe = digits()
    recipe = replace(
        recipe,
        cluster=replace(recipe.cluster, num_workers=3),
        finetune=replace(recipe.finetune, batch_size=30, batch_use="half"),
    )
    with pytest.raises(ConfigError, match=r"'mine': .* equal halves on each of 3 workers"):
        apply_point(recipe, {"finetune": {"batch_size": 32}}, "mine")


def write(path: Path, space: str, head: str = "") -> str:
    """A file with a space, and its path."""
    path.write_text(f"{head}\nfrom ray import tune\n\ndef param_space():\n    return {space}\n")
    return str(path)


@pytest.fixture
def spaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in the place of the one with the spaces of the project."""
    monkeypatch.setattr(tune_spaces, "FOLDER", tmp_path)
    monkeypatch.setattr(tune_spaces, "__path__", [str(tmp_path)])
    return tmp_path


@pytest.mark.parametrize(
    ("name", "space", "message"),
    [("drawn", '{"finetune": {"beta": tune.uniform(0, 1)}}', "at random"), ("nothing", "{}", "empty")],
)
def test_a_space_that_draws_at_random_or_is_empty_is_refused(spaces: Path, name: str, space: str, message: str) -> None:
    write(spaces / f"{name}.py", space)
    with pytest.raises(ConfigError, match=message):
        expand(name)


class TestDraws:
    def test_equal_seeds_give_equal_points_and_more_of_them_the_same_ones_first(self) -> None:
        assert sample("continuous", 3, seed=1) == sample("continuous", 5, seed=1)[:3]
        assert sample("continuous", 3, seed=1) != sample("continuous", 3, seed=2)

    def test_a_recipe_draws_by_its_seed(self) -> None:
        one, again, other = (points_of(replace(digits(), seed=seed), "continuous", 2) for seed in (0, 0, 1))
        assert one == again
        assert not {*one} & {*other}

    def test_fields_are_drawn_apart_from_each_other_and_fill_their_ranges(self) -> None:
        points = [point["finetune"] for point in sample("continuous", 300, seed=0)]
        columns = [np.log([point[name] for point in points]) for name in ("beta", "gamma", "alpha", "lr")]
        correlations = np.corrcoef(columns)[np.triu_indices(4, 1)]
        assert np.abs(correlations).max() < 0.2
        betas = [point["beta"] for point in points]
        assert 0.01 <= min(betas) < 0.02
        assert 5 < max(betas) <= 10
        assert {point["num_dummies"] for point in points} == set(range(1, 16))

    @pytest.mark.parametrize("values", ["[{}, {}]", "({}, {})"])
    def test_draws_within_a_grid_make_a_space_random(self, tmp_path: Path, values: str) -> None:
        values = values.format('{"beta": tune.uniform(0, 1)}', '{"beta": tune.uniform(0, 1), "gamma": 0.5}')
        path = write(tmp_path / "mine.py", f'{{"finetune": tune.grid_search({values})}}')
        assert draws_values(path)
        with pytest.raises(ConfigError, match="at random"):
            expand(path)
        points = [point["finetune"] for point in sample(path, 4, seed=1)]
        assert [point.get("gamma") for point in points] == [None, 0.5, None, 0.5]
        assert len({point["beta"] for point in points}) == 4


TUNE = "from ray import tune\n\ndef param_space():\n"


class TestAFileOfOnesOwn:
    def test_it_is_a_space_by_its_path(self, tmp_path: Path) -> None:
        path = write(tmp_path / "mine.py", '{"finetune": {"beta": tune.grid_search([1, 3])}}')
        assert [point["finetune"]["beta"] for point in expand(path)] == [1, 3]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("x = 1\n", "no function param_space"),
            ("import none_such\n", "cannot be loaded: No module"),
            ("(", "loaded"),
            ("import sys\nsys.exit('give DATA')\n", "cannot be loaded: give DATA"),
            ("def param_space():\n    raise SystemExit\n", r"param_space\(\) fails: SystemExit"),
            ("def param_space():\n    return 1 / 0\n", r"param_space\(\) fails: division by zero"),
            (
                TUNE + '    return {"finetune": {"beta": tune.grid_search(5)}}\n',
                "its values cannot be drawn: 'int' object",
            ),
            (TUNE + '    return {"finetune": {"beta": tune.choice([])}}\n', "its values cannot be drawn: "),
        ],
    )
    def test_one_that_is_no_space_is_refused(self, tmp_path: Path, text: str, message: str) -> None:
        (tmp_path / "mine.py").write_text(text)
        with pytest.raises(ConfigError, match=message):
            expand(str(tmp_path / "mine.py"))

    @pytest.mark.parametrize(("encoding", "head"), [("utf-8-sig", ""), ("latin-1", "# -*- coding: latin-1 -*-\n")])
    def test_it_is_read_in_the_encoding_in_which_python_runs_it(self, tmp_path: Path, encoding: str, head: str) -> None:
        path = tmp_path / "mine.py"
        path.write_text(f'{head}"""Größe."""\n{TUNE}    return {{"finetune": {{}}}}\n', encoding=encoding)
        assert space_info(str(path)).headline == "Größe."

    def test_numbers_of_numpy_become_plain_ones(self, tmp_path: Path) -> None:
        values = "np.arange(1, 3)", "np.linspace(0.1, 0.2, 2, dtype=np.float32)"
        fields = ", ".join(f'"{n}": tune.grid_search(list({v}))' for n, v in zip(("epochs", "lr"), values, strict=True))
        points = points_of(digits(), write(tmp_path / "mine.py", f'{{"finetune": {{{fields}}}}}', "import numpy as np"))
        assert {(type(point.epochs), type(point.lr)) for point in points} == {(int, float)}
        assert [point.epochs for point in points] == [1, 2, 1, 2]

    def test_what_it_says_of_its_points_has_plain_numbers_too(self, tmp_path: Path) -> None:
        head = (
            "import numpy as np\nfrom tune_spaces import Claim, Published\n"
            "POINTS = {f'C = {c}': {'num_dummies': c} for c in np.arange(1, 4)}\n"
            "PUBLISHED = [Published({'num_dummies': np.int64(1)}, 'macro_f1', np.float32(0.5), 'me')]\n"
            "CLAIMS = [Claim('more is better', (('C = 3', {'num_dummies': np.int64(1)}),), 'me')]\n"
        )
        info = space_info(write(tmp_path / "mine.py", "{}", head))
        assert info.points == {f"C = {c}": {"num_dummies": c} for c in (1, 2, 3)}
        assert info.published == (Published({"num_dummies": 1}, "macro_f1", 0.5, "me"),)
        assert info.claims == (Claim("more is better", (("C = 3", {"num_dummies": 1}),), "me"),)
        assert decisive(info), "a key can hold it"

    @pytest.mark.parametrize(
        ("said", "message"),
        [
            ("POINTS = [{'beta': 1}]", r"it\.points is \[\{'beta': 1\}\]; need an object"),
            ("POINTS = {'one': 3}", r"it\.points\.one is 3; need an object"),
            ("POINTS = {'one': {'beta': tune.uniform(0, 1)}}", "it has <ray"),
            ("PUBLISHED = 0.5", r"it\.published is 0\.5; need a list"),
            ("PUBLISHED = [({'beta': 1}, 'auroc', 0.5)]", r"it\.published\[0\] is \[.*\]; need an object"),
            ("CLAIMS = [Claim('better', (('a', 'b', 'c'),), 'me')]", r"it\.claims.* has 3 values; need 2"),
        ],
    )
    def test_one_that_says_something_else_of_its_points_is_refused(
        self, tmp_path: Path, said: str, message: str
    ) -> None:
        path = write(tmp_path / "mine.py", "{}", f"from ray import tune\nfrom tune_spaces import Claim\n{said}")
        with pytest.raises(ConfigError, match=f"search space {path}: {message}.*; POINTS are names"):
            space_info(path)

    def test_one_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="no such file"):
            expand(str(tmp_path / "mine.py"))


def test_the_control_is_the_same_whatever_the_placeholders_are() -> None:
    recipe = digits()
    other = replace(recipe, finetune=replace(recipe.finetune, beta=3.0, gamma=7.0, num_dummies=2, alpha=0.5))
    assert control_of(other) == control_of(recipe)
    longer = replace(recipe, finetune=replace(recipe.finetune, epochs=9))
    assert control_of(longer) != control_of(recipe)


def test_the_recipes_own_point_is_tried_beside_the_grid_and_equal_points_once(tmp_path: Path) -> None:
    def count(gamma: float) -> int:
        recipe = digits()
        own = replace(recipe, finetune=replace(recipe.finetune, gamma=gamma))
        artefact = Artefact(tmp_path, "digest")
        finetunes = finetunes_of(own, points_of(own, "trade_off"))
        return len(plan_trials(own, finetunes, artefact, artefact, Store(tmp_path), code="code"))

    assert count(0.1) == 26
    assert count(0.2) == 27


def test_points_that_the_recipe_or_another_space_has_too_are_never_stopped_early() -> None:
    recipe = digits()
    own, one, shared = (replace(recipe.finetune, gamma=gamma) for gamma in (recipe.finetune.gamma, 7.0, 8.0))
    assert stoppable_points(recipe, {"compared": [own, one, shared], "whole": [shared]}, ["compared"]) == [one]


def test_a_new_file_is_a_new_space(spaces: Path) -> None:
    write(spaces / "two_seeds.py", '{"seed": tune.grid_search([3, 4])}', '"""Two."""')
    assert space_names() == ["two_seeds"]
    assert describe("two_seeds") == "Two."
    assert [point["seed"] for point in expand("two_seeds")] == [3, 4]
