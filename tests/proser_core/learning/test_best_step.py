"""Which step a training takes: a captured one on a GPU, where nothing in it needs the host."""

import pytest
import torch
from small_tasks import CPU, finetune_config, tiny_net, training_batches

from proser_core.data.augmentation.batches import TrainingBatches
from proser_core.learning import fit as fitting
from proser_core.learning import step as stepping
from proser_core.learning.objectives import ProserObjective
from proser_core.learning.step import Arithmetic, best_step


class Captured:
    def __init__(self, step):
        self.step = step


@pytest.mark.parametrize(
    ("device", "capturable", "captured"),
    [("cuda", True, True), ("cuda", False, False), ("cpu", True, False), ("cpu", False, False)],
)
def test_a_step_is_captured_on_a_gpu_where_it_can_be(monkeypatch, device, capturable, captured):
    monkeypatch.setattr(stepping, "GraphedStep", Captured)
    eager = object()
    chosen = best_step(eager, torch.device(device), capturable=capturable)
    assert (chosen.step if captured else chosen) is eager


@pytest.mark.parametrize(
    ("in_memory", "world_size", "rand_augment", "expected"),
    [(True, 1, 0, True), (False, 1, 0, False), (True, 2, 0, False), (True, 1, 9, False)],
    ids=["plain", "streamed", "two workers", "RandAugment"],
)
def test_what_needs_the_host_in_a_step_is_not_captured(monkeypatch, in_memory, world_size, rand_augment, expected):
    asked = []

    def choice(step, device, *, capturable):
        asked.append(capturable)
        return step

    monkeypatch.setattr(fitting, "best_step", choice)
    monkeypatch.setattr(fitting, "current_world", lambda: (0, world_size))
    monkeypatch.setattr(fitting, "DistributedDataParallel", lambda module, **_: module)
    monkeypatch.setattr(fitting.dist, "all_reduce", lambda table: None)
    monkeypatch.setattr(TrainingBatches, "in_memory", in_memory)
    config = finetune_config(epochs=1, rand_augment=rand_augment)
    batches = training_batches(8, rand_augment=rand_augment)
    objective = ProserObjective(tiny_net(), config, seed=0)
    fitting.fit(objective, batches, config, Arithmetic(CPU, False), seed=0, report=lambda *_: None)
    assert asked == [expected]
