"""Stacked fine-tunes against the same ones by themselves."""

import pytest
import torch

from benchmarks.core import stacking
from benchmarks.harness.settings import Settings
from benchmarks.variants.setups import one_batch, placeholder_net
from proser_core.learning.objectives import ProserObjective


def test_stacked_fine_tunes_become_what_they_are_by_themselves() -> None:
    settings = Settings(quick=True)
    batch, points = one_batch(settings), stacking.points_of(settings)
    nets = [placeholder_net(settings) for _ in points]
    objective = stacking.StackedObjective([placeholder_net(settings) for _ in points], points)
    stacked = stacking.step_of(objective, settings, False)
    apart = [
        stacking.step_of(ProserObjective(net, point, seed=0), settings, False)
        for net, point in zip(nets, points, strict=True)
    ]
    for _ in range(3):
        stacked(batch)
        for step in apart:
            step(batch)
    for index, net in enumerate(nets):
        form = stacking.TwoHalves(net)
        for name, weight in zip((n for n, _ in form.named_parameters()), objective.weights, strict=True):
            torch.testing.assert_close(weight[index], dict(form.named_parameters())[name], rtol=1e-4, atol=1e-5)
        for name, statistic in form.named_buffers():
            torch.testing.assert_close(objective._statistics[name][index], statistic, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(objective.weights[0][0], objective.weights[0][-1])


@pytest.mark.slow
def test_both_ways_are_timed_in_both_precisions() -> None:
    tables = stacking.run(Settings(quick=True)).tables
    for table, precision in zip(tables, ["bf16", "fp32"], strict=True):
        assert precision in table.title
        assert [row[0] for row in table.rows] == [stacking.IN_TURN, stacking.STACKED]
        assert all(row[1] > 0 for row in table.rows)
