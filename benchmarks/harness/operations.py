"""Count what a step asks of the device: operations that start work on it, and reads that wait for it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode  # torch documents it under no public name

WITHOUT_WORK = {
    "aten::_reshape_alias",
    "aten::_unsafe_view",
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::new_empty",
    "aten::new_empty_strided",
    "aten::resize_",
    "aten::set_",
}
HOST_READS = {
    "aten::_local_scalar_dense",
    "aten::_unique2",
    "aten::allclose",
    "aten::bincount",
    "aten::equal",
    "aten::is_nonzero",
    "aten::item",
    "aten::masked_select",
    "aten::nonzero",
    "aten::repeat_interleave",
    "aten::unique_consecutive",
    "aten::unique_dim",
}
"""The device must finish before the host goes on: a value is taken, or the shape of the result depends on one."""
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
"""Host reads where an index is a mask, whose places a GPU counts; a number filled in by a mask waits for nothing."""
UNSEEN = ("tolist", "numpy", "cpu", "__repr__")
"""Methods of a tensor that hand its values to the host; on a CPU they dispatch nothing that could be counted."""


@dataclass
class OperationCount:
    """Calls by name: kernel-like ones (neither a view nor an empty tensor), and host reads."""

    kernels: Counter[str] = field(default_factory=Counter)
    reads: Counter[str] = field(default_factory=Counter)

    @property
    def num_kernels(self) -> int:
        """Kernel-like operations in all. A foreach operation counts as one."""
        return self.kernels.total()

    @property
    def num_host_reads(self) -> int:
        """Host reads in all."""
        return self.reads.total()


class _Counting(TorchDispatchMode):
    """Sees every ATen operation below autograd and autocast, the backward pass included."""

    def __init__(self, count: OperationCount) -> None:
        super().__init__()
        self._count = count

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().split(".")[0]
        if name in HOST_READS or (name in INDEXED and _counts_a_mask(*args)):
            self._count.reads[name] += 1
        elif not func.is_view and name not in WITHOUT_WORK:
            self._count.kernels[name] += 1
        return func(*args, **(kwargs or {}))


def count_operations(call: Callable[[], object]) -> OperationCount:
    """Operations that `call` dispatches in this thread, and the methods of tensors that read them, in any.

    A tensor that never left the host counts as a read too: on a CPU nothing tells the two apart.
    """
    count = OperationCount()
    with _Counting(count), _noticed(count):
        call()
    return count


def _counts_a_mask(tensor: Tensor, indices: Sequence[Tensor | None], values: Tensor | None = None, *_: Any) -> bool:
    filled = values is not None and values.dim() == 0
    return not filled and any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)


@contextmanager
def _noticed(count: OperationCount) -> Iterator[None]:
    """While it is open, each call of the methods in UNSEEN is a read."""
    with ExitStack() as stack:
        for name in UNSEEN:
            stack.enter_context(mock.patch.object(Tensor, name, _counted(name, getattr(Tensor, name), count)))
        yield


def _counted(name: str, method: Callable[..., Any], count: OperationCount) -> Callable[..., Any]:
    def counting(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        count.reads[name] += 1
        return method(tensor, *args, **kwargs)

    return counting
