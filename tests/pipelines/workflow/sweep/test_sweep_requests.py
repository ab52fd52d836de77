"""What may be asked of a sweep: class splits, spaces and searches, and what is refused before anything is trained."""

from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_runs import RunFolder, printed, quick_recipe, write_space
from sweep_runs import SPACES, request

from pipelines.reproduction.protocols import STUDIES
from pipelines.workflow.requests import parse_indices
from pipelines.workflow.sweeping import sweep
from proser_core.errors import ConfigError

pytestmark = pytest.mark.usefixtures("trains_here")


@pytest.mark.parametrize(
    "names", [("a/my.py", "b/my.py"), ("my.py", "./my.py"), ("betas", "betas.py"), ("a b.py", "a_b.py")]
)
def test_spaces_whose_figures_would_overwrite_each_other_are_refused(
    names: tuple[str, str], folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in names:
        if name.endswith(".py"):
            Path(name).parent.mkdir(exist_ok=True)
            write_space(Path(name).parent, Path(name).stem, SPACES["betas"])
    with pytest.raises(ConfigError, match=f"search spaces {names[0]} and {names[1]} would be in one folder"):
        request(folder, spaces=names)
    assert request(folder, spaces=(names[0], names[0], "pairs"))


def test_trials_that_know_the_same_classes_have_seeds_of_their_own(folder: RunFolder) -> None:
    data = STUDIES["cifar-plus"].data_of("neal", split_index=0)
    asked = request(folder, recipe=replace(quick_recipe(), space="", data=data), split_indices=(0, 2))
    assert [(recipe.data.split_index, recipe.seed) for recipe in asked.recipes] == [(0, 0), (2, 2)]
    chosen = replace(asked.recipe, data=replace(data, split_index=2))
    assert request(folder, recipe=chosen, split_indices=()).recipes == [chosen]  # as `proser run` would train it


@pytest.mark.parametrize(
    ("indices", "workers", "message"),
    [((0, 1), 1, "on one class split, and --split-indices gives 2"), ((0,), 2, "num_workers is 2, set it to 1")],
)
@pytest.mark.parametrize(("space", "stop_early"), [("continuous", False), ("trade_off", True)])
def test_a_search_of_what_cannot_be_compared_is_refused(
    folder: RunFolder, indices: tuple[int, ...], workers: int, message: str, space: str, stop_early: bool
) -> None:
    cluster = replace(quick_recipe().cluster, num_workers=workers)
    recipe = replace(quick_recipe(), cluster=cluster, stop_early=stop_early)
    options = {"recipe": recipe, "spaces": (space,), "split_indices": indices}
    with pytest.raises(ConfigError, match=message):
        printed(sweep, request(folder, **options))


@pytest.mark.parametrize(
    ("text", "indices"), [("0", (0,)), ("0-4", (0, 1, 2, 3, 4)), ("0,2,5-6", (0, 2, 5, 6)), ("3, 3", (3,))]
)
def test_class_splits_are_numbers_and_ranges(text: str, indices: tuple[int, ...]) -> None:
    assert parse_indices(text) == indices


@pytest.mark.parametrize("text", ["", "a", "4-0", "-1", "1..3", "1,,2"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="need numbers and ranges"):
        parse_indices(text)
