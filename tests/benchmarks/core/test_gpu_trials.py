"""Many trials on one GPU: refused without one, and run on a few digits on the CPU. No time is asserted."""

from pathlib import Path

import pytest
import torch

from benchmarks.__main__ import main
from benchmarks.core import gpu_trials
from benchmarks.harness.settings import Settings
from tune_spaces.trade_off import ALL


def test_the_points_are_those_of_the_space() -> None:
    points = gpu_trials.points_of(Settings())
    assert [{"beta": point.beta, "gamma": point.gamma} for point in points] == ALL
    assert {point.epochs for point in points} == {10}


@pytest.mark.parametrize(
    ("options", "part"), [([], "give --device cuda, or --quick"), (["--device", "cuda"], "give --data-dir")]
)
def test_what_cannot_be_measured_is_refused_in_one_line(
    options: list[str], part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMP_WAIT_POLICY", "passive")  # which main sets
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(SystemExit) as stopped:
        main(["gpu_trials", *options, "--json", str(tmp_path / "benchmark.json")])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert error.startswith("benchmarks: gpu_trials ")
    assert part in error
    assert len(error.splitlines()) == 1


@pytest.mark.slow
def test_a_few_digits_go_through_the_runner_and_a_pool() -> None:
    threads = torch.get_num_threads()
    report = gpu_trials.run(Settings(quick=True))
    assert torch.get_num_threads() == threads
    (table,) = report.tables
    assert [row[:2] for row in table.rows] == [("in turn, by the core's runner", 1), ("pool of processes", 2)]
    assert all(seconds > 0 for row in table.rows for seconds in (row[2], row[4]))
    assert [target.verdict for target in report.targets] == ["not measured"]
