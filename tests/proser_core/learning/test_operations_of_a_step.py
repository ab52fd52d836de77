"""What a fine-tune step asks of the device, counted in the training loop itself; nothing is timed."""

from functools import cache

import numpy as np
import pytest
import torch
from small_tasks import CPU, SIZE, training_batches

from benchmarks.harness.operations import OperationCount, count_operations
from proser_core.config import FinetuneConfig, NetworkConfig
from proser_core.data.augmentation.rand_augment import OPERATIONS, rand_augment
from proser_core.learning.fit import fit
from proser_core.learning.objectives import ProserObjective
from proser_core.learning.step import Arithmetic
from proser_core.networks.nets import add_placeholders, make_closed_set_net

BATCH = 8


def epoch_of(steps: int, bf16: bool, batch_size: int, **choices) -> OperationCount:
    config = FinetuneConfig(epochs=1, batch_size=batch_size, **choices)
    net = add_placeholders(make_closed_set_net(NetworkConfig(), 3, SIZE, seed=0), 5, seed=0)
    batches = training_batches(steps * batch_size, batch_size)
    objective, arithmetic = ProserObjective(net, config, seed=0), Arithmetic(CPU, bf16)
    return count_operations(lambda: fit(objective, batches, config, arithmetic, seed=0, report=lambda *_: None))


@cache
def one_step(*, bf16: bool, batch_size: int = BATCH, **choices) -> OperationCount:
    """An epoch of two steps beyond one of one step: data, losses, backward pass and optimizer of one step."""
    longer, shorter = (epoch_of(steps, bf16, batch_size, **choices) for steps in (2, 1))
    return OperationCount(longer.kernels - shorter.kernels, longer.reads - shorter.reads)


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
@pytest.mark.slow
def test_a_step_has_at_most_350_kernel_like_operations(choices):
    count = one_step(bf16=True, **choices)
    assert 100 < count.num_kernels <= 350, count.kernels.most_common(20)
    larger = one_step(bf16=True, batch_size=4 * BATCH, **choices)
    assert larger.kernels == count.kernels  # no loop over images


@pytest.mark.parametrize("bf16", [True, False])
@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_a_step_reads_nothing_from_the_device(choices, bf16):
    count = one_step(bf16=bf16, **choices)
    assert count.num_host_reads == 0, count.reads


def test_rand_augment_loops_over_kinds_of_operations_and_not_over_images():
    """A step with it is never captured as a graph: it reads the strength of each kind from a tensor of the host."""
    kinds = np.arange(2 * len(OPERATIONS))
    images = torch.zeros(4 * len(kinds), SIZE, SIZE, 3, dtype=torch.uint8)

    def augmented(count: int) -> OperationCount:
        drawn = np.stack([np.resize(kinds // 2, count), np.resize(kinds % 2, count)])
        return count_operations(lambda: rand_augment(images[:count], drawn, 9))

    few, many = augmented(len(kinds)), augmented(len(images))
    assert few == many
    present = sum(1 + operation.signed for operation in OPERATIONS.values())
    assert few.num_host_reads <= present
    assert few.num_kernels <= 250
