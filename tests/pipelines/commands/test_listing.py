"""What `proser list` tells of data that is missing and of published class lists, as wide as a terminal is."""

from pathlib import Path

import pytest
from pipeline_runs import Proser, printed

from pipelines.commands.list_ import print_listing
from pipelines.recipes import RECIPES
from pipelines.recipes.schedules import PRETRAINING
from proser_core.baselines import METHODS
from proser_core.data.catalogue import SOURCES
from proser_core.data.outliers.outlier_sets import OUTLIERS
from proser_core.data.splits.families import FAMILIES, Against, Family
from proser_core.errors import ConfigError
from proser_core.recognition.scores import FURTHER_SCORES
from tune_spaces import space_names


def as_one_line(text: str) -> str:
    return " ".join(text.split())


def listed(kind: str, data_dir: Path | None = None) -> str:
    return as_one_line(printed(print_listing, kind, data_dir, width=80)[1])


def test_whatever_is_missing_has_its_exact_folders_and_where_to_get_them(tmp_path: Path) -> None:
    told = listed("data", tmp_path) + listed("outliers", tmp_path)
    missing = [source for source in SOURCES.values() if source.origin]
    assert len(missing) >= 5
    for source in missing:
        assert f"{source.name} not found; needs {source.needs}. Download it from {source.origin}" in told
    for name in ("omniglot", "mnist-noise", "imagenet-crop", "imagenet-resize", "lsun-crop", "lsun-resize"):
        assert f"{name} not found; needs {OUTLIERS[name].needs}. Download it from {OUTLIERS[name].origin}" in told


def test_alone_it_has_every_name_and_no_more(tmp_path: Path) -> None:
    told = listed("", tmp_path)
    for names in (RECIPES, PRETRAINING, space_names(), METHODS, FURTHER_SCORES, SOURCES, OUTLIERS, FAMILIES):
        assert all(name in told for name in names)
    assert "not found" not in told
    assert len(told) < 1600


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("recipes", "cifar100-cpu CIFAR100: 15 known classes"),
        ("spaces", "trade_off The trade-off grid"),
        ("methods", "OpenMax Bendale and Boult 2016"),
        ("scores", "KNN Sun et al. 2022; reads embeddings and training images"),
        ("data", "digits embedded"),
        ("splits", "permuted for any data set"),
    ],
)
def test_one_kind_says_what_each_name_means(kind: str, expected: str) -> None:
    assert expected in listed(kind)


def test_a_kind_that_there_is_not_is_refused_with_the_nearest(proser: Proser) -> None:
    code, _, error = proser("list", "method")
    assert code == 2
    assert "no kind of list is called 'method'; did you mean 'methods'?" in error


def test_a_data_directory_is_named_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"--data-dir got \[red\], which is not a folder"):
        listed("data", Path("[red]"))
    Path("[red]").mkdir()
    assert "Data sets (in [red])" in listed("data", Path("[red]"))
    assert "Data sets (no --data-dir given)" in listed("data")


def test_each_family_tells_what_it_has_and_what_is_wrong_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = ((0, 1), (1, 2))
    pair = ("mnist", "svhn")
    defects: dict[str | tuple[str, str], str] = {"mnist": "too easy", "svhn": "too easy", pair: "too hard"}
    made = Family("made", "a test", {"mnist": lists, "svhn": lists}, {pair: Against(lists, lists)}, defects)
    monkeypatch.setitem(FAMILIES, "made", made)
    told = listed("splits")
    assert "made a test for mnist, svhn, mnist against svhn - " in told
    assert " - mnist and svhn: too easy - mnist against svhn: too hard" in told
    for family in FAMILIES.values():
        for defect in family.defects.values():
            assert as_one_line(defect) in told
    assert told.count("cifar10 against cifar100 (CIFAR+10 and CIFAR+50)") == 4
    assert told.count("cifar10 against cifar100 (CIFAR+50)") == 1
