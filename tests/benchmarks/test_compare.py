"""The table of paired differences over splits."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from benchmarks.compare import CONTROL, METRICS, difference_text, main
from proser_core.store.store import write_manifest

VALUES = {"CE control": [0.80, 0.82, 0.79], "dummies": [0.81, 0.84, 0.79]}


def written(folder: Path, split: int, names: tuple[str, ...] = tuple(VALUES), failed: tuple[str, ...] = ()) -> str:
    methods = {name: {"MaxLogit": dict.fromkeys(METRICS, VALUES[name][split])} for name in names}
    trainings = {name: {"methods": {} if name in failed else methods[name]} for name in names}
    key = f"{folder.name} {split}"  # it has the times of the data's files in it, which are no matter here
    prepared = folder / "prepare" / key
    prepared.mkdir(parents=True)
    (prepared / "images").write_text(f"of split {split}")
    write_manifest(prepared, {})
    (folder / "results.json").write_text(json.dumps({"task": key, "trainings": trainings}))
    return str(folder)


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    return [written(tmp_path / f"out{split}", split) for split in range(3)]


def test_every_training_stands_beside_the_control_of_its_own_split(
    folders: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(folders)
    printed = capsys.readouterr().out
    rows = {line.split(" | ")[0].removeprefix("| "): line.split(" | ")[1:] for line in printed.splitlines()}
    assert rows[CONTROL][:2] == ["80.3", "+0.0 ± 0.0"]
    differences = np.array([1.0, 2.0, 0.0])
    low, high = ttest_1samp(differences, 0).confidence_interval()
    assert rows["dummies: MaxLogit"][:2] == ["81.3", f"+1.0 ± {(high - low) / 2:.1f}"]


def test_partners_are_compared_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = written(tmp_path / "ours", 0)
    monkeypatch.setitem(VALUES, "dummies", [0.84])
    main([ours, "--with", written(tmp_path / "theirs", 0)])
    assert "| dummies: MaxLogit | 81.0 | -3.0 |" in capsys.readouterr().out


def refusal(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The line with which the arguments are refused."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_folders_that_do_not_go_together_are_refused(
    folders: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other, third = folders
    said = refusal([one, other, "--with", one, third], capsys)
    assert f"{other} and {third} were trained on other images" in said
    ours, theirs = (written(tmp_path / name, 0, names=(name,)) for name in VALUES)
    assert "no training has a result in every folder" in refusal([ours, "--with", theirs], capsys)
    (tmp_path / "results.json").write_text("[]")
    for folder in ("nowhere", str(tmp_path)):
        assert f"{folder} has no readable results.json" in refusal([folder], capsys)


@pytest.mark.parametrize("partnered", [True, False])
def test_a_training_that_failed_in_one_folder_is_named(
    tmp_path: Path, partnered: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, part = written(tmp_path / "whole", 0), written(tmp_path / "part", 0, failed=("dummies",))
    main([whole, "--with", part] if partnered else [whole, part])
    printed = capsys.readouterr().out
    assert "| dummies: MaxLogit" not in printed
    assert "Left out, because not every folder has a result: dummies: MaxLogit." in printed


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (["--against", "nothing"], "'nothing' is not in every folder"),
        (["--with", "nowhere"], "got 3 folders and 1 partners"),
        (["--with", "nowhere", "nowhere", "nowhere"], "nowhere has no readable results.json"),
        (["--test"], "test/unknown_15/auroc is not among the metrics"),
    ],
)
def test_a_mistake_is_told_in_one_line(
    folders: list[str], wrong: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert part in refusal([*folders, *wrong], capsys)


def test_one_pair_has_no_interval_and_no_difference_no_sign_of_its_own() -> None:
    assert difference_text(np.array([0.25])) == "+0.2"
    assert difference_text(np.array([-0.01])) == difference_text(np.array([0.01])) == "+0.0"
    assert difference_text(np.array([-0.04, -0.02])) == "+0.0 ± 0.1"
