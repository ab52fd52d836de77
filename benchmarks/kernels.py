"""Counts what a step asks of the device: operations that start work on it, and reads that wait for it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

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
HOST_READS = {"aten::_local_scalar_dense", "aten::item", "aten::nonzero", "aten::is_nonzero", "aten::equal"}
"""The device must finish before the host goes on; `nonzero` hides in an index by a mask."""


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
        if name in HOST_READS:
            self._count.reads[name] += 1
        elif not func.is_view and name not in WITHOUT_WORK:
            self._count.kernels[name] += 1
        return func(*args, **(kwargs or {}))


def count_kernels(call: Callable[[], object]) -> OperationCount:
    """Operations that `call` dispatches in this thread."""
    count = OperationCount()
    with _Counting(count):
        call()
    return count


def difference(longer: OperationCount, shorter: OperationCount) -> OperationCount:
    """What `longer` does beyond `shorter`: one step, where it runs one step more."""
    return OperationCount(longer.kernels - shorter.kernels, longer.reads - shorter.reads)
