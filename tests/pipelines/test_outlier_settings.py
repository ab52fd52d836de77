"""Tables, figures and files of runs and sweeps whose test settings are outlier sets."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow import parquet
from rich.console import Console
from sweep_tables import CONTROLS, SPLIT, metrics, texts, trade_off

from pipelines.commands.list_ import print_listing
from pipelines.reports import figures, sweep_parquet
from pipelines.reports.summary import markdown_table, terminal_tables
from pipelines.reports.sweep_summary import markdown, sweep_tables
from pipelines.reports.sweep_table import SweepTable, read_table, spaces_of, write_table
from pipelines.tracking.model_card import _scores
from pipelines.tracking.views import view_state
from pipelines.workflow.stages.sweep_report import figures_of
from proser_core.data.splits.class_split import ClassSplit
from proser_core.job import table as job_table

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
    return replace(
        numbered,
        splits={0: NAMED},
        rows=renamed(numbered.rows),
        controls=renamed(numbered.controls),  # type: ignore[arg-type]
    )


def evaluation(split: ClassSplit) -> dict[str, object]:
    settings = {
        str(setting): {"auroc": 0.9 - 0.1 * place, "macro_f1": 0.8 - 0.1 * place}
        for place, setting in enumerate(split.settings)
    }
    test = {"closed_set_accuracy": 0.99, "known_rate": 0.95, "settings": settings}
    calibration = {"num_images": 100, "bias": 1.0, "interval": [0.9, 0.98]}
    method = {"report": {"test": test, "calibration": calibration}, "flat": {}}
    return {"methods": {"PROSER": method}, "selected": {"name": "own"}, "proxy": None}


def test_the_closing_tables_have_a_column_for_each_outlier_set_and_no_openness() -> None:
    text = markdown_table("mnist", evaluation(NAMED), NAMED, {"noise": "made here"})
    assert "| method | omniglot | noise | accuracy | known |" in text
    assert "| PROSER | 90.0 / 80.0 | 80.0 / 70.0 | 99.0 | 95.0 |" in text
    assert "noise: made here." in text
    assert "penness" not in text
    numbered = ClassSplit(tuple(range(10)), tuple(range(10, 40)), (15, 30))
    assert "Openness: 15 unknown 36.75 %, 30 unknown 50.00 %." in markdown_table("m", evaluation(numbered), numbered)
    tables = terminal_tables("mnist", evaluation(NAMED), NAMED)
    assert [str(column.header) for column in tables[0].columns] == ["method", "omniglot", "noise", "accuracy", "known"]
    assert "by outlier set" in str(tables[0].title)


def test_a_figure_over_points_is_titled_by_the_outlier_set() -> None:
    assert figures._title("test/mnist-noise/auroc") == "AUC, mnist-noise"
    assert figures._title("test/unknown_15/auroc") == "AUC, 15 unknown test classes"


def test_a_sweep_is_told_and_drawn_by_outlier_set(made: SweepTable, tmp_path: Path) -> None:
    write_table(made, tmp_path)
    assert read_table(tmp_path) == made
    text = markdown(made)
    assert "| omniglot | noise |" in text
    assert "test at omniglot: macro-F1" in text
    assert "penness" not in text
    assert "F1 omniglot" in {str(column.header) for each in sweep_tables(made) for column in each.columns}
    drawn = figures_of(made, spaces_of(made)[0])
    assert not [name for name in drawn if "openness" in name]
    assert {"macro_f1", "auroc_settings", "parallel_coordinates"} <= drawn.keys()
    titles = " ".join(axes.get_title() for axes in drawn["macro_f1_settings"].axes)
    assert "macro-F1, omniglot, %" in titles + texts(drawn["macro_f1_settings"])


def test_the_parquet_file_names_the_outlier_set_in_the_place_of_a_number(made: SweepTable, tmp_path: Path) -> None:
    sweep_parquet.write_parquet(made, tmp_path / "named.parquet")
    frame = parquet.read_table(tmp_path / "named.parquet").to_pandas()
    assert set(frame.outliers) == {"omniglot", "noise"}
    assert frame[["num_unknown", "openness"]].isna().all(axis=None)
    assert frame.macro_f1.notna().all()
    sweep_parquet.write_parquet(trade_off(range(1)), tmp_path / "numbered.parquet")
    numbered = parquet.read_table(tmp_path / "numbered.parquet").to_pandas()
    assert numbered.outliers.isna().all()
    assert set(numbered.num_unknown) == set(SPLIT.settings)


def test_the_list_says_which_sets_are_there_and_what_is_to_be_known_of_them(tmp_path: Path) -> None:
    (tmp_path / "tiny-imagenet-200" / "test" / "images").mkdir(parents=True)
    (tmp_path / "LSUN").mkdir()
    printed = io.StringIO()
    print_listing(tmp_path, Console(file=printed, width=300))
    rows = dict(line.split(maxsplit=1) for line in printed.getvalue().splitlines() if line.startswith("  "))
    assert rows["noise"].strip() == "generated"
    assert rows["imagenet-crop"].startswith("re-created, not ODIN's own images")
    assert rows["lsun-crop"].strip() == "ODIN's folder"
    for missing in ("omniglot", "lsun-resize", "mnist-noise", "svhn", "tiny-imagenet"):
        assert rows[missing].startswith("not found; need ")


def test_model_card_view_and_job_table_name_the_outlier_sets() -> None:
    flat = renamed(metrics(0.6))
    assert isinstance(flat, dict)
    card = "\n".join(_scores(dict.fromkeys(CONTROLS, flat)))
    assert "by outlier set" in card
    assert "| method | noise | omniglot | accuracy | known |" in card
    columns = view_state("run", [], ("omniglot", "noise"))["selectedColumns"]
    assert "metrics.`test/noise/auroc`" in columns
    header, row = job_table({"own": {"methods": {"MSP": flat}}}, ("omniglot", "noise"))
    assert header.split()[-2:] == ["omniglot", "noise"]
    assert row.endswith("80.0 / 60.0  70.0 / 50.0")
