"""`data.group_by`, beside near duplicates or without them: expressions, folders and tables."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scenes import CONFIG, scene, write_scenes

from proser_core.data.data_sets import open_data_set
from proser_core.data.grouping import Grouping
from proser_core.data.near_duplicates import NO_PAIRS
from proser_core.errors import ConfigError, DataError


def groups_by(root: Path, rule: str) -> dict[str, int]:
    data = open_data_set("folder", root, grouping=Grouping(rule, by_looks=False))
    sizes = [np.unique(data.index(part, size=8).groups, return_counts=True)[1] for part in ("train", "test")]
    return {"groups": sum(map(len, sizes)), "largest": max(map(max, sizes))}


def test_a_regular_expression_finds_the_name_of_the_group(bursts: Path) -> None:
    assert groups_by(bursts, r"^(scene\d+)-") == {"groups": 16, "largest": 4}
    assert groups_by(bursts, r"scene\d+") == {"groups": 16, "largest": 4}
    assert groups_by(bursts, r"(scene)(\d)") == {"groups": 10, "largest": 28}  # 1, 10, 11, ... are one
    assert groups_by(bursts, r"^(scene1\d)?") == {"groups": 6 + 10 * 4, "largest": 4}  # the others have no group


def test_a_folder_below_the_class_is_a_group_in_every_class(tmp_path: Path) -> None:
    root = write_scenes(tmp_path, "camera {scene}/{frame}.png")
    for name in ("temple", "flower"):
        scene(50).save(root / name / "loose.png")
    assert groups_by(root, "1") == {"groups": 18, "largest": 4}
    with pytest.raises(DataError, match=r"group_by is 2, and no image lies 2 folders below that of its class"):
        groups_by(root, "2")


def test_an_image_above_the_level_of_the_groups_is_in_none(tmp_path: Path) -> None:
    root = write_scenes(tmp_path, "site/camera {scene}/{frame}.png")
    for name in ("temple", "flower"):
        for frame in range(2):
            scene(50, frame).save(root / name / "site" / f"loose {frame}.png")
    assert groups_by(root, "2") == {"groups": 16 + 4, "largest": 4}


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_says_the_group_of_each_path(bursts: Path, tmp_path: Path, ending: str) -> None:
    paths = sorted(path.relative_to(bursts).as_posix() for path in bursts.rglob("*.png"))
    names = [path.partition("-")[0] for path in paths]
    table, lacking = tmp_path / f"groups{ending}", tmp_path / f"lacking{ending}"
    for rows, file in ((len(paths), table), (len(paths) - 1, lacking)):
        written = pa.table({"path": paths[:rows], "group": names[:rows]})
        if ending == ".csv":
            written.to_pandas().to_csv(file, index=False)
        else:
            pq.write_table(written, file)
    assert groups_by(bursts, str(table)) == {"groups": 16, "largest": 4}
    with pytest.raises(DataError, match=rf"has no row for {paths[-1]}, one of 1 images without one"):
        groups_by(bursts, str(lacking))


def test_accents_may_be_stored_in_two_ways(tmp_path: Path) -> None:
    """As one character with their letter (NFC), or as one of their own (NFD), as macOS does."""
    one, other = "caf\u00e9", "cafe\u0301"
    paths = [f"{name}/{frame}.png" for name in (one, other) for frame in range(2)]
    table = tmp_path / "groups.csv"
    pa.table({"path": [f"{one}/0.png", f"{one}/1.png"], "group": ["a", "b"]}).to_pandas().to_csv(table, index=False)
    absolute = [str(tmp_path / path) for path in paths]
    folders = [tmp_path / "class"] * 4
    by_table = Grouping(str(table), by_looks=False).joined(NO_PAIRS, absolute[2:], folders[2:], tmp_path)
    assert by_table.tolist() == [0, 1]
    below = [str(tmp_path / "class" / path) for path in paths]
    assert Grouping("1", by_looks=False).joined(NO_PAIRS, below, folders, tmp_path).tolist() == [0] * 4
    named = [str(tmp_path / f"class/{name} {frame}.png") for name in (one, other) for frame in range(2)]
    for rule in (one, other):
        assert Grouping(f"^({rule})", by_looks=False).joined(NO_PAIRS, named, folders, tmp_path).tolist() == [0] * 4


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_an_empty_cell_of_a_table_is_no_group(bursts: Path, tmp_path: Path, ending: str) -> None:
    paths = [path.relative_to(bursts).as_posix() for path in bursts.rglob("*.png")]
    table = tmp_path / f"groups{ending}"
    written = pa.table({"path": paths, "group": pa.array([None] * len(paths), pa.string())})
    if ending == ".csv":
        written.to_pandas().to_csv(table, index=False)
    else:
        pq.write_table(written, table)
    assert groups_by(bursts, str(table))["groups"] == len(paths)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_with_a_path_in_two_groups_is_refused_and_spaces_around_a_name_are_none(
    bursts: Path, tmp_path: Path, ending: str
) -> None:
    paths = [path.relative_to(bursts).as_posix() for path in bursts.rglob("*.png")]
    for again, file in (("A", tmp_path / f"once{ending}"), ("B", tmp_path / f"twice{ending}")):
        written = pa.table({"path": [*paths, paths[0]], "group": [*["A", " A"] * (len(paths) // 2), again]})
        if ending == ".csv":
            written.to_pandas().to_csv(file, index=False)
        else:
            pq.write_table(written, file)
    with pytest.raises(DataError, match=rf"has {paths[0]} in two groups, A and B; give each path one"):
        groups_by(bursts, str(tmp_path / f"twice{ending}"))
    with pytest.raises(DataError, match="no class has the 3 groups"):
        groups_by(bursts, str(tmp_path / f"once{ending}"))


def test_a_table_with_a_row_that_ends_before_its_path_is_refused(bursts: Path, tmp_path: Path) -> None:
    table = tmp_path / "groups.csv"
    table.write_text("group,path\nA,a/x.png\nB\n")
    with pytest.raises(DataError, match=r"groups\.csv has a row without a path in line 3; give it one, or remove it"):
        groups_by(bursts, str(table))


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_table_without_its_columns_is_refused(bursts: Path, tmp_path: Path, ending: str) -> None:
    table = tmp_path / f"groups{ending}"
    table.write_text("path,scene\n") if ending == ".csv" else pq.write_table(pa.table({"path": ["a"]}), table)
    with pytest.raises(DataError, match=r"has no column group; need path and group"):
        groups_by(bursts, str(table))


def test_an_expression_that_finds_nothing_is_refused_with_a_name_that_it_saw(bursts: Path) -> None:
    with pytest.raises(DataError, match=r"'session' is found in no name of an image, such as 'scene"):
        groups_by(bursts, "session")


@pytest.mark.parametrize(
    ("values", "need"),
    [
        ({"name": "cifar100", "group_by": "1"}, "empty for a data set with published parts"),
        ({"group_by": "0"}, "1 or more for a folder level"),
        ({"group_by": "(scene"}, "a valid regular expression"),
        ({"group_by": "a{99999999999}"}, "a valid regular expression"),
        ({"group_by": 5_000 * "(" + 5_000 * ")"}, "a valid regular expression"),
    ],
)
def test_a_rule_that_cannot_be_one_is_refused_before_any_work(values: dict[str, str], need: str) -> None:
    with pytest.raises(ConfigError, match=rf"data\.group_by is .*{need}"):
        replace(CONFIG, **values)
