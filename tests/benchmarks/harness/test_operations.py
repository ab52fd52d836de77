"""Every operation and every way to read a tensor is counted."""

import numpy as np
import pytest
import torch

from benchmarks.harness.operations import count_operations

TENSOR = torch.arange(4)
READS = {
    "item": lambda: TENSOR[0].item(),
    "a condition": lambda: bool((TENSOR > 0).any()),
    "nonzero": lambda: TENSOR.nonzero(),
    "an index by a mask": lambda: TENSOR[TENSOR > 0],
    "an assignment by a mask": lambda: TENSOR.clone().__setitem__(TENSOR > 1, TENSOR[:2]),
    "masked_select": lambda: TENSOR.masked_select(TENSOR > 0),
    "unique": lambda: TENSOR.unique(),
    "bincount": lambda: TENSOR.bincount(),
    "equal": lambda: torch.equal(TENSOR, TENSOR),
    "tolist": lambda: TENSOR.tolist(),
    "numpy": lambda: TENSOR.numpy(),
    "asarray": lambda: np.asarray(TENSOR),
    "cpu": lambda: TENSOR.cpu(),
    "print": lambda: f"{TENSOR}",
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_every_way_to_read_is_counted(read):
    assert count_operations(read).num_host_reads >= 1


def test_what_reads_nothing_is_not_counted_as_a_read():
    def fill() -> None:
        rows = TENSOR.clone()
        rows[rows > 1] = 7  # masked_fill on a GPU
        rows[TENSOR[:2]] += 1

    assert count_operations(fill).num_host_reads == 0


def test_a_loop_is_counted_and_reading_is_as_before_afterwards():
    count = count_operations(lambda: [TENSOR[row] + 1 for row in range(4)])
    assert (count.num_kernels, count.num_host_reads) == (4, 0)
    assert TENSOR.tolist() == [0, 1, 2, 3]
    assert not {"tolist", "numpy", "cpu"} & set(vars(torch.Tensor))
