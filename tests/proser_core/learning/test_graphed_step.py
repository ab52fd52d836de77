"""The step captured as a CUDA graph is the eager step. Needs a GPU.

Networks this small make much of any rounding: where two eager trainings differ, the other tests say nothing.
"""

import pytest
import torch
from small_tasks import NORMALISATION, SIZE, labelled

from proser_core.config import DataConfig, FinetuneConfig, NetworkConfig
from proser_core.data.augmentation.batches import TrainingBatches
from proser_core.learning import fit as fitting
from proser_core.learning.objectives import CrossEntropyObjective, ProserObjective
from proser_core.learning.step import Arithmetic, GraphedStep
from proser_core.networks.nets import BACKBONES, add_placeholders, make_closed_set_net

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
BATCH = 8


def fitted(
    monkeypatch,
    *,
    graphed: bool,
    network: NetworkConfig,
    pretrain: bool = False,
    bf16: bool = False,
    resume_after: int | None = None,
    **options,
) -> dict:
    """The network's values after three epochs of four steps, the second and third from a checkpoint if asked."""
    cuda = torch.device("cuda", 0)
    config = FinetuneConfig(**{"epochs": 3, "batch_size": BATCH, "lr": 0.01, "averaging": 0.9, **options})
    make_step = GraphedStep if graphed else lambda step: step
    monkeypatch.setattr(fitting, "best_step", lambda step, device, capturable: make_step(step))
    states: list = []

    def run(resume):
        closed_set = make_closed_set_net(network, 3, SIZE, seed=0)
        objective = (
            CrossEntropyObjective(closed_set, label_smoothing=0.1)
            if pretrain
            else ProserObjective(add_placeholders(closed_set, 5, seed=0), config, seed=0)
        )
        batches = TrainingBatches(
            labelled(4 * BATCH),
            DataConfig(image_size=SIZE, padding=2),
            NORMALISATION,
            batch_size=BATCH,
            seed=0,
            purpose="finetune",
            device=cuda,
        )

        def keep(epoch, metrics, state):
            states.append({key: _copied(value) for key, value in state.items()})

        fitting.fit(objective, batches, config, Arithmetic(cuda, bf16), seed=0, report=keep, resume=resume)
        return {name: value.cpu() for name, value in objective.state_dict().items()}

    values = run(None)
    return values if resume_after is None else run(states[resume_after])


def _copied(value):
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


EVERY_BACKBONE = pytest.mark.parametrize("backbone", [name for name in BACKBONES if not name.endswith("_224")])


@EVERY_BACKBONE
def test_eager_training_equals_itself(monkeypatch, backbone):
    first, second = (fitted(monkeypatch, graphed=False, network=NetworkConfig(backbone=backbone)) for _ in range(2))
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=0, atol=0, msg=name)


@EVERY_BACKBONE
@pytest.mark.parametrize(
    "kind", [{"batch_use": "half"}, {"batch_use": "all"}, {"pretrain": True}], ids=["half", "all", "pretraining"]
)
def test_graphed_training_equals_eager_training(monkeypatch, kind, backbone):
    eager, graphed = (
        fitted(monkeypatch, graphed=graphed, network=NetworkConfig(backbone=backbone), **kind)
        for graphed in (False, True)
    )
    for name, value in eager.items():
        torch.testing.assert_close(graphed[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_graphed_training_with_dropout_equals_eager_training(monkeypatch):
    network = NetworkConfig(dropout=0.2)
    eager, graphed = (fitted(monkeypatch, graphed=graphed, network=network) for graphed in (False, True))
    for name, value in eager.items():
        torch.testing.assert_close(graphed[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_graphed_training_goes_on_from_a_checkpoint(monkeypatch):
    options = {"network": NetworkConfig(dropout=0.2), "batch_use": "all"}
    whole = fitted(monkeypatch, graphed=True, **options)
    resumed = fitted(monkeypatch, graphed=True, **options, resume_after=0)
    for name, value in whole.items():
        torch.testing.assert_close(resumed[name], value, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize(("bf16", "tolerance"), [(False, 1e-4), (True, 2e-2)])
def test_graphed_training_with_muon_equals_eager_training(monkeypatch, bf16, tolerance):
    network = NetworkConfig()
    options = {"network": network, "batch_use": "all", "bf16": bf16, "optimizer": "muon", "start": "scratch"}
    eager, graphed = (fitted(monkeypatch, graphed=graphed, **options) for graphed in (False, True))
    for name, value in eager.items():
        torch.testing.assert_close(graphed[name], value, rtol=tolerance, atol=tolerance, msg=name)
