"""The benchmarks run, and their tables have the promised shape. No time is asserted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.__main__ import USUAL, main
from benchmarks.document import filled

ROOT = Path(__file__).parents[2]


def quick(path: Path, *names: str) -> tuple[str, dict]:
    """What the named benchmarks print and store, or all of the usual ones."""
    command = [sys.executable, "-m", "benchmarks", *names, "--quick", "--json", str(path)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads(path.read_text())


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory) -> tuple[str, dict]:
    return quick(tmp_path_factory.mktemp("benchmarks") / "benchmark.json", "step", "evaluation")


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("--json", "none/b.json", "whose folder does not exist"),
        ("--json", ".", "which is a folder; give a file"),
        ("--data-dir", "none", "which has no CIFAR100"),
        ("--device", "cuda", "torch sees no GPU here"),
    ],
)
def test_what_is_missing_is_told_before_anything_is_measured(
    option: str,
    value: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="2"):
        main(["evaluation", "--quick", option, value])
    printed = capsys.readouterr()
    assert (printed.out, told in printed.err) == ("", True)


def test_a_benchmark_that_cannot_run_loses_nothing_of_those_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cifar100").mkdir()
    (tmp_path / "cifar100" / "train-damaged.parquet").touch()
    (tmp_path / "cifar100" / "test-damaged.parquet").touch()
    with pytest.raises(SystemExit, match="2"):
        main(["evaluation", "augmentation", "--quick", "--data-dir", str(tmp_path), "--json", str(tmp_path / "b.json")])
    assert list(json.loads((tmp_path / "b.json").read_text())["benchmarks"]) == ["evaluation"]
    assert capsys.readouterr().err.startswith("benchmarks: ")


@pytest.mark.slow
def test_the_environment_is_printed_and_stored(quick_run):
    printed, stored = quick_run
    for name in ("processor", "cores", "threads", "torch", "OMP_WAIT_POLICY"):
        assert f"- {name}: {stored['environment'][name]}" in printed


@pytest.mark.slow
def test_every_row_has_a_cell_for_each_column(quick_run):
    check_cells(quick_run[1]["benchmarks"], ["step", "evaluation"])


@pytest.mark.slow
def test_all_that_make_benchmark_runs_runs(tmp_path):
    check_cells(quick(tmp_path / "benchmark.json")[1]["benchmarks"], list(USUAL))


@pytest.mark.parametrize(("given", "arguments"), [([], ""), (["DATA=my images"], " --data-dir 'my images'")])
def test_make_benchmark_takes_a_data_directory(given, arguments):
    command = ["make", "--dry-run", "--no-print-directory", "--assume-old=.venv/.installed", "benchmark", *given]
    of_an_outer_make = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    environment = {name: value for name, value in os.environ.items() if name not in ("DATA", *of_an_outer_make)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith(f"python -m benchmarks{arguments}")


def check_cells(stored: dict, names: list[str]) -> None:
    assert list(stored) == names
    for report in stored.values():
        assert report["tables"]
        for table in report["tables"]:
            assert {len(row) for row in table["rows"]} == {len(table["columns"])}


@pytest.mark.slow
def test_every_target_has_a_measurement_and_a_verdict(quick_run):
    printed, stored = quick_run
    targets = [target for report in stored["benchmarks"].values() for target in report["targets"]]
    assert len(targets) >= 5
    assert all(target["measured"] is not None and target["verdict"] in ("met", "missed") for target in targets)
    assert "## targets" in printed


@pytest.mark.slow
def test_results_are_equal_to_scikit_learns(quick_run):
    (table,) = quick_run[1]["benchmarks"]["evaluation"]["tables"]
    assert {"at once", "scikit-learn", "NumPy, vectorised"} == {row[0] for row in table["rows"]}
    assert float(table["notes"][0].rpartition(" ")[2].rstrip(".")) < 1e-12


@pytest.mark.slow
def test_a_document_is_filled_between_its_marks_and_again(quick_run):
    document = "before\n<!-- measured: begin -->\nnothing yet\n<!-- measured: end -->\nafter\n"
    once = filled(document, quick_run[1])
    assert once.startswith("before\n")
    assert once.endswith("after\n")
    assert "nothing yet" not in once
    assert "### evaluation" in once
    seconds = {name: report["seconds"] for name, report in quick_run[1]["benchmarks"].items()}
    assert f"- seconds of all benchmarks: {sum(seconds.values()):.0f} (step {seconds['step']:.0f}, " in once
    assert filled(once, quick_run[1]) == once
