"""A sweep in a folder of its own."""

from pathlib import Path

import pytest

from benchmarks.workflow.sweep_folder import Sweep, SweepFolder
from benchmarks.workflow.with_notes import PARTS, REAL


def test_parts_of_a_command_are_read_from_its_notes(tmp_path: Path) -> None:
    sweeps = SweepFolder(tmp_path, REAL, ())
    (tmp_path / PARTS).write_text('["trained", 1.0, 3.0]\n["tracked", 3.0, 4.5]\n')
    assert Sweep(9.0, dict(sweeps._parts()), 0, 0).seconds("trained", "tracked") == 3.5


@pytest.mark.slow
def test_a_sweep_that_fails_says_why(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"ended with 2:\n.*no-such-recipe"):
        SweepFolder(tmp_path, REAL, ("no-such-recipe", "trade_off")).sweep()
