"""What a fine-tune step asks of the device, counted in the training loop itself; nothing is timed."""

import pytest
import torch

from benchmarks.kernels import OperationCount, count_kernels, difference
from core.helpers import CPU, NORMALISATION, labelled
from proser_core.config import DataConfig, FinetuneConfig, NetworkConfig
from proser_core.data.batches import TrainingBatches
from proser_core.learning.fit import fit
from proser_core.learning.objectives import ProserObjective
from proser_core.learning.step import Arithmetic
from proser_core.networks.nets import add_placeholders, make_closed_set_net

SIZE, BATCH = 8, 8


def epoch_of(steps: int, bf16: bool, **choices) -> OperationCount:
    config = FinetuneConfig(epochs=1, batch_size=BATCH, **choices)
    net = add_placeholders(make_closed_set_net(NetworkConfig(), 3, SIZE, seed=0), 5, seed=0)
    data = DataConfig(image_size=SIZE, padding=2)
    batches = TrainingBatches(
        labelled(steps * BATCH), data, NORMALISATION, batch_size=BATCH, seed=0, purpose="finetune", device=CPU
    )
    objective, arithmetic = ProserObjective(net, config, seed=0), Arithmetic(CPU, bf16)
    return count_kernels(lambda: fit(objective, batches, config, arithmetic, seed=0, report=lambda *_: None))


def one_step(bf16: bool = True, **choices) -> OperationCount:
    """An epoch of three steps beyond one of two: data, losses, backward pass and optimizer of one step."""
    return difference(epoch_of(3, bf16, **choices), epoch_of(2, bf16, **choices))


CHOICES = [
    {},
    {"mixup": "vanilla"},
    {"mixture_batch_norm": "separate"},
    {"batch_use": "all"},
    {"averaging": 0.99},
    {"loss_form": "released"},
    {"optimizer": "muon", "start": "scratch"},
]


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_a_step_has_at_most_350_kernel_like_operations(choices):
    count = one_step(**choices)
    assert 100 < count.num_kernels <= 350, count.kernels.most_common(20)


@pytest.mark.parametrize("bf16", [True, False])
@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_a_step_reads_nothing_from_the_device(choices, bf16):
    count = one_step(bf16, **choices)
    assert count.num_host_reads == 0, count.reads


def test_a_host_read_and_a_loop_would_be_counted():
    tensor = torch.arange(4)
    count = count_kernels(lambda: [tensor[row].item() + 1 for row in range(4)] and tensor[tensor > 0])
    assert count.num_host_reads >= 4
    assert count.num_kernels >= 1
