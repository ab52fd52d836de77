"""Which room of the benchmarks may import which, and that the table of names, files and documents agree."""

import ast
import importlib
from pathlib import Path

import pytest

import benchmarks
from benchmarks.__main__ import BENCHMARKS, main

FOLDER = Path(benchmarks.__file__).parent
BELOW = {
    "harness": set(),
    "variants": {"harness"},
    "core": {"harness", "variants"},
    "workflow": {"harness", "variants"},
}
"""What each room may import of the others."""
COMMANDS = {"__init__", "__main__", "compare", "document", "gpu_kit"}


def rooms_imported(path: Path) -> set[str]:
    nodes = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom) and node.module)
    names = [node.module.split(".") for node in nodes if node.module]
    return {parts[1] for parts in names if parts[0] == "benchmarks"}


@pytest.mark.parametrize("room", BELOW)
def test_rooms_import_from_rooms_below_alone(room: str) -> None:
    files = sorted((FOLDER / room).glob("*.py"))
    assert len(files) > 1
    assert {path.name: rooms_imported(path) - BELOW[room] - {room} for path in files} == {
        path.name: set() for path in files
    }


def test_only_commands_stand_outside_of_rooms() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == COMMANDS
    assert {path.parent.name for path in FOLDER.glob("*/*.py")} == set(BELOW)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_is_the_file_of_its_name_and_runs(name: str) -> None:
    module = BENCHMARKS[name].module
    assert module.rpartition(".")[2] == name
    assert callable(importlib.import_module(f"benchmarks.{module}").run)


def test_every_file_that_is_run_by_name_is_in_the_table() -> None:
    runs = {path.stem for room in ("core", "workflow") for path in (FOLDER / room).glob("*.py") if has_run(path)}
    assert runs == set(BENCHMARKS)


def has_run(path: Path) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in ast.parse(path.read_text()).body)


def test_the_help_text_has_each_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed and benchmark.summary in printed for name, benchmark in BENCHMARKS.items())
    assert max(map(len, printed.splitlines())) <= 120
