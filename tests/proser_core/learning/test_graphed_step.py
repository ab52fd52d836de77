"""The step captured as a CUDA graph is the eager step. Needs a GPU.

Networks this small make much of any rounding: where two eager trainings differ, the other tests say nothing.
"""

import copy

import pytest
import torch
from small_tasks import SIZE, training_batches

from proser_core.config import FinetuneConfig, NetworkConfig
from proser_core.learning import fit as fitting
from proser_core.learning.objectives import CrossEntropyObjective, ProserObjective
from proser_core.learning.step import Arithmetic, GraphedStep
from proser_core.networks.nets import BACKBONES, add_placeholders, make_closed_set_net

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
BATCH = 8


def fitted(
    monkeypatch,
    *,
    graphed,
    backbone="classifier32",
    dropout=0.0,
    pretrain=False,
    bf16=False,
    resume_after=None,
    **options,
) -> dict:
    """The network's values after three epochs of four steps, the second and third from a checkpoint if asked."""
    cuda = torch.device("cuda", 0)
    config = FinetuneConfig(**{"epochs": 3, "batch_size": BATCH, "lr": 0.01, "averaging": 0.9, **options})
    make_step = GraphedStep if graphed else lambda step: step
    monkeypatch.setattr(fitting, "best_step", lambda step, device, capturable: make_step(step))
    states: list = []

    def run(resume):
        closed_set = make_closed_set_net(NetworkConfig(backbone=backbone, dropout=dropout), 3, SIZE, seed=0)
        objective = (
            CrossEntropyObjective(closed_set, label_smoothing=0.1)
            if pretrain
            else ProserObjective(add_placeholders(closed_set, 5, seed=0), config, seed=0)
        )
        batches = training_batches(4 * BATCH, BATCH, device=cuda)

        def keep(epoch, metrics, state):
            states.append(copy.deepcopy(state))

        fitting.fit(objective, batches, config, Arithmetic(cuda, bf16), seed=0, report=keep, resume=resume)
        return {name: value.cpu() for name, value in objective.state_dict().items()}

    values = run(None)
    return values if resume_after is None else run(states[resume_after])


KINDS = [{"batch_use": "half"}, {"batch_use": "all"}, {"pretrain": True}]
MUON = {"batch_use": "all", "optimizer": "muon", "start": "scratch"}


@pytest.mark.parametrize("backbone", BACKBONES)
def test_eager_training_equals_itself(monkeypatch, backbone):
    first, second = (fitted(monkeypatch, graphed=False, backbone=backbone) for _ in range(2))
    torch.testing.assert_close(second, first, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("options", "rtol", "atol"),
    [
        *(({"backbone": name, **kind}, 1e-4, 1e-5) for name in BACKBONES for kind in KINDS),
        ({"dropout": 0.2}, 1e-4, 1e-5),
        (MUON, 1e-4, 1e-4),
        (MUON | {"bf16": True}, 2e-2, 2e-2),
    ],
    ids=str,
)
def test_graphed_training_equals_eager_training(monkeypatch, options, rtol, atol):
    eager, graphed = (fitted(monkeypatch, graphed=graphed, **options) for graphed in (False, True))
    torch.testing.assert_close(graphed, eager, rtol=rtol, atol=atol)


def test_graphed_training_goes_on_from_a_checkpoint(monkeypatch):
    options = {"graphed": True, "dropout": 0.2, "batch_use": "all"}
    whole, resumed = fitted(monkeypatch, **options), fitted(monkeypatch, **options, resume_after=0)
    torch.testing.assert_close(resumed, whole, rtol=1e-4, atol=1e-5)
