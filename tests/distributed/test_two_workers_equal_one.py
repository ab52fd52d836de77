"""Two DDP workers on the CPU (gloo) do what one process does with the same global batch."""

import math
from pathlib import Path
from typing import Any

import ddp_steps
import pytest
import torch
import torch.multiprocessing
from small_tasks import bit_equal

from proser_core.learning.mixup import pair_weights

WORLD = 2
NAMES = tuple(ddp_steps.OBJECTIVES)
MIXING = tuple(name for name in NAMES if name != "cross-entropy")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder: Path = tmp_path_factory.mktemp("ranks")
    torch.multiprocessing.spawn(ddp_steps.run_rank, args=(WORLD, folder), nprocs=WORLD)
    return [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(WORLD)]


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return ddp_steps.outcomes(rank=0, world_size=1)


def global_pairs() -> torch.Tensor:
    batch = next(ddp_steps.batches_of(ddp_steps.digits_task(), 0, 1).epoch(0))
    draw = ddp_steps.first_draw(ddp_steps.objective_of("manifold mixup", frozen_norms=True), batch)
    return pair_weights(batch.global_targets[12:], draw.partners)


def test_the_batch_has_several_pairs_of_one_class_shared_unevenly_by_the_ranks() -> None:
    weights = global_pairs()
    of_one_class = [int((part == 0).sum()) for part in weights.chunk(WORLD)]
    assert sum(of_one_class) >= 3
    assert of_one_class[0] != of_one_class[1], "equal shares would hide a wrong denominator"
    assert weights.sum() >= 3


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_one_step_equal_those_of_one_process(
    name: str, ranks: list[dict[str, Any]], alone: dict[str, Any]
) -> None:
    expected = alone["gradients"][name]
    assert expected
    for rank in ranks:
        assert rank["gradients"][name].keys() == expected.keys()
        for key, value in expected.items():
            scale = float(value.abs().max())
            torch.testing.assert_close(rank["gradients"][name][key], value, rtol=1e-4, atol=1e-5 * scale + 1e-8)


@pytest.mark.parametrize("name", MIXING)
def test_every_parameter_has_a_gradient_that_is_not_zero(name: str, alone: dict[str, Any]) -> None:
    assert all(value.abs().max() > 0 for value in alone["gradients"][name].values())
    assert any(key.endswith("dummies.weight") for key in alone["gradients"][name])


@pytest.mark.parametrize("kind", ["fit", "fit with frozen norms"])
@pytest.mark.parametrize("name", NAMES)
def test_all_ranks_report_equal_metrics_and_end_with_equal_weights(
    name: str, kind: str, ranks: list[dict[str, Any]]
) -> None:
    first, second = (rank[kind][name] for rank in ranks)
    assert bit_equal(first["parameters"], second["parameters"])
    assert first["epochs"] == second["epochs"]
    assert len(first["epochs"]) == ddp_steps.OBJECTIVES[name].epochs


@pytest.mark.parametrize("name", NAMES)
def test_reported_metrics_equal_those_of_one_process(
    name: str, ranks: list[dict[str, Any]], alone: dict[str, Any]
) -> None:
    expected = alone["fit with frozen norms"][name]["epochs"]
    for got, want in zip(ranks[0]["fit with frozen norms"][name]["epochs"], expected, strict=True):
        assert got.keys() == want.keys()
        assert got == pytest.approx(want, rel=1e-3, abs=1e-4)
        assert all(math.isfinite(value) for value in want.values())


@pytest.mark.parametrize("name", NAMES)
def test_weights_after_two_epochs_equal_those_of_one_process(
    name: str, ranks: list[dict[str, Any]], alone: dict[str, Any]
) -> None:
    got, want = (outcome["fit with frozen norms"][name]["parameters"] for outcome in (ranks[0], alone))
    fresh = dict(ddp_steps.objective_of(name, frozen_norms=True).net.named_parameters())
    assert max(float((want[key] - fresh[key].detach()).abs().max()) for key in want) > 1e-3, "training moved nothing"
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_three_workers_that_go_on_equal_those_that_never_stopped(tmp_path: Path) -> None:
    """Of three or more gradients the sum depends on the order, which DDP may change after a step."""
    torch.multiprocessing.spawn(ddp_steps.run_resumed, args=(3, tmp_path), nprocs=3)
    whole, resumed = torch.load(tmp_path / "rank0.pt", weights_only=True)
    assert bit_equal(whole, resumed)
