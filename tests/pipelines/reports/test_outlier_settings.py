"""Tables, figures and files of runs and sweeps whose test settings are outlier sets."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pipeline_runs import printed
from pyarrow import parquet
from rich.console import Console
from rich.table import Table
from sweep_tables import AT_15, CONTROLS, SPLIT, metrics, texts, trade_off

from pipelines.commands.list_ import print_listing
from pipelines.reports import trials_parquet
from pipelines.reports.report_files import figures_of
from pipelines.reports.results_page import results_page
from pipelines.reports.spaces import spaces_of
from pipelines.reports.sweep_table import SweepTable, read_table, write_table
from pipelines.reports.terminal import run_tables, sweep_tables
from pipelines.tracking.views import view_state
from proser_core.data.splits.class_split import ClassSplit
from proser_core.job import table as job_table
from proser_core.jobs.selection import Row
from proser_core.recognition.model_card import _scores

NAMED = ClassSplit(tuple(range(10)), (10, 11), ("omniglot", "noise"))
RENAMED = (("unknown_15", "omniglot"), ("unknown_30", "noise"))


def renamed(values: object) -> object:
    """The same values at settings that are outlier sets, which have no openness."""
    text = json.dumps(values)
    for count, name in RENAMED:
        text = text.replace(count, name)
    return json.loads(text)


@pytest.fixture(scope="module")
def made() -> SweepTable:
    numbered = trade_off(range(1))
    return replace(numbered, splits={0: NAMED}, rows=renamed(numbered.rows), controls=renamed(numbered.controls))


def test_the_closing_tables_have_a_column_for_each_outlier_set_and_no_openness(made: SweepTable) -> None:
    text = results_page(made, notes={"noise": "made here"})
    assert "| method | development | omniglot | noise | accuracy | known |" in text
    assert "| PROSER | 74.0 / 64.0 | 84.0 / 64.0 | 74.0 / 54.0 | **88.0** | 94.0 |" in text
    assert "| MaxLogit | **76.0** / **66.0** |" in text
    assert "noise: made here." in text
    assert "penness" not in text
    assert "Openness: 15 unknown 29.29 %, 30 unknown 42.26 %." in results_page(trade_off())
    tables = run_tables(made)
    assert [str(column.header) for column in tables[0].columns] == ["", "omniglot", "noise", "accuracy", "known"]
    assert [str(cell) for cell in list(tables[0].columns[0].cells)[:2]] == ["PROSER", "PROSER, recipe's own point"]
    assert "by outlier set" in str(tables[0].title)


def test_a_sweep_is_described_and_drawn_by_outlier_set(made: SweepTable, tmp_path: Path) -> None:
    write_table(made, tmp_path)
    assert read_table(tmp_path) == made
    assert "test at omniglot: macro-F1" in results_page(made)
    assert "F1\nomniglot" in {str(column.header) for each in sweep_tables(made) for column in each.columns}
    drawn = figures_of(spaces_of(made)[0])
    assert not [name for name in drawn if "openness" in name]
    assert {"macro_f1", "auroc_settings", "parallel_coordinates"} <= drawn.keys()
    titles = " ".join(axes.get_title() for axes in drawn["macro_f1_settings"].axes)
    assert "macro-F1, omniglot, %" in titles + texts(drawn["macro_f1_settings"])


def set_beside(names: tuple[str, ...], splits: range) -> SweepTable:
    """A sweep that was tested on these sets, on all alike."""
    numbered = trade_off(splits)

    def on_all(row: Row) -> Row:
        at = {name.removeprefix(AT_15): value for name, value in row["metrics"].items() if name.startswith(AT_15)}
        return {**row, "metrics": row["metrics"] | {f"test/{s}{name}": v for s in names for name, v in at.items()}}

    split = ClassSplit(tuple(range(10)), tuple(range(10, 10 + len(names))), names)
    rows, controls = ([on_all(row) for row in listed] for listed in (numbered.rows, numbered.controls))
    return replace(numbered, splits=dict.fromkeys(splits, split), rows=rows, controls=controls)


def words(drawn: Table, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width).print(drawn)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    return sorted(out.getvalue().replace("─", "").split())


@pytest.mark.parametrize("splits", [range(1), range(2)], ids=["one split", "two splits"])
@pytest.mark.parametrize("more", [(), ("omniglot", "mnist-noise", "tiny-imagenet", "svhn")], ids=["four", "eight"])
def test_nothing_of_terminal_tables_is_lost_at_80_columns(splits: range, more: tuple[str, ...]) -> None:
    named = set_beside(("imagenet-crop", "imagenet-resize", "lsun-crop", "lsun-resize", *more), splits)
    of_run, of_sweep = run_tables(named), sweep_tables(named)
    for drawn in (*of_run, *of_sweep):
        assert words(drawn, 80) == words(drawn, 400)
        assert "PROSER" in words(drawn, 80) or "beta" in words(drawn, 80)
    heads = [str(column.header).replace("-\n", "-") for drawn in of_run[: len(of_run) // 2] for column in drawn.columns]
    assert [head for head in heads if head not in ("", "splits")] == [*named.settings, "accuracy", "known"]


def test_the_parquet_file_names_the_outlier_set_in_the_place_of_a_number(made: SweepTable, tmp_path: Path) -> None:
    trials_parquet.write_parquet(made, tmp_path / "named.parquet")
    frame = parquet.read_table(tmp_path / "named.parquet").to_pandas()
    assert set(frame.outliers) == {"omniglot", "noise"}
    assert frame[["num_unknown", "openness"]].isna().all(axis=None)
    assert frame.macro_f1.notna().all()
    trials_parquet.write_parquet(trade_off(range(1)), tmp_path / "numbered.parquet")
    numbered = parquet.read_table(tmp_path / "numbered.parquet").to_pandas()
    assert numbered.outliers.isna().all()
    assert set(numbered.num_unknown) == set(SPLIT.settings)


def test_the_list_says_which_sets_are_there_and_what_is_to_be_known_of_them(tmp_path: Path) -> None:
    (tmp_path / "tiny-imagenet-200" / "test" / "images").mkdir(parents=True)
    (tmp_path / "LSUN").mkdir()
    text = "".join(printed(print_listing, kind, tmp_path, width=300)[1] for kind in ("outliers", "data"))
    rows = dict(line.split(maxsplit=1) for line in text.splitlines() if line.startswith("  "))
    assert rows["noise"].strip() == "generated"
    recreated = "re-created, not ODIN's own images: a random crop of 32 pixels from each of"
    assert rows["imagenet-crop"].startswith(recreated)
    assert rows["lsun-crop"].strip() == "ODIN's folder"
    for missing in ("omniglot", "lsun-resize", "mnist-noise", "svhn", "tiny-imagenet"):
        assert rows[missing].startswith("not found; needs ")


def test_model_card_view_and_job_table_name_the_outlier_sets() -> None:
    flat = renamed(metrics(0.6))
    assert isinstance(flat, dict)
    card = "\n".join(_scores(dict.fromkeys(CONTROLS, flat)))
    assert "by outlier set" in card
    assert "| method | noise | omniglot | accuracy | known |" in card
    columns = view_state("run", [], ("omniglot", "noise"))["selectedColumns"]
    assert "metrics.`test/noise/auroc`" in columns
    header, _, row = job_table({"own": {"methods": {"MSP": flat}}}, ("omniglot", "noise"))
    assert header.split()[-2:] == ["omniglot", "noise"]
    assert row.endswith("80.0 / 60.0  70.0 / 50.0")
