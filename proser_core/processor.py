"""What a training process can do on its machine: from the processor's flags, never from a timing, which would differ
between runs. Also how it keeps memory, so that activations of one step are reused by the next."""

import ctypes
import functools
import math
import os
import platform
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from proser_core.config import Recipe
from proser_core.errors import ConfigError

if TYPE_CHECKING:
    import torch

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc, malloc.h
MMAP_THRESHOLDS = 128 << 20, 32 << 20  # glibc before 2.35 takes no more than the second
BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}  # Intel and AMD; Arm


@functools.cache
def has_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the CPU multiplies bf16 in hardware; False where the flags cannot be read."""
    if not cpuinfo.is_file():
        return False
    lines = (
        line
        for line in cpuinfo.read_text(encoding="utf-8").splitlines()
        if line.lower().startswith(("flags", "features"))
    )
    return bool(BF16_FLAGS & set(next(lines, "").split()))


def bound_threads(limit: Path = Path("/sys/fs/cgroup/cpu.max")) -> None:
    """Give torch as many threads as a container's CPU quota has cores (Linux's cgroup v2), unless the user has said how
    many. Call it before torch is imported: it counts the machine's cores, and more threads than the quota wait."""
    quota, _, period = limit.read_text(encoding="ascii").partition(" ") if limit.is_file() else ("max", "", "")
    if quota != "max":
        cores = min(os.cpu_count() or 1, math.ceil(int(quota) / int(period)))
        os.environ.setdefault("OMP_NUM_THREADS", str(cores))


def hardware(uses_gpu: bool) -> str:
    """The processor and cores of this machine for people, its GPU where that one trains, and torch's version."""
    import torch

    host = f"{os.cpu_count()} cores of {processor_name()}, torch {torch.__version__}"
    return f"{torch.cuda.get_device_name()}, {host}" if uses_gpu else host


def processor_name() -> str:
    """Model, family and stepping, where Linux has them."""
    cpuinfo = Path("/proc/cpuinfo")
    names = {"model name": "", "cpu family": "", "model": "", "stepping": ""}
    for line in (cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in names:
            names[name.strip()] = value.strip()
    if not names["model name"]:  # as on Arm
        return platform.processor() or platform.machine() or "unknown"
    return f"{names['model name']} (family {names['cpu family']}, model {names['model']}, step {names['stepping']})"


def resolve_precision(recipe: Recipe) -> bool:
    """Whether training runs in bf16: as the recipe says, or where the hardware has it."""
    if recipe.precision != "auto":
        return recipe.precision == "bf16"
    return recipe.cluster.uses_gpu or has_bf16()


def usable_device(device: "torch.device | str") -> "torch.device":
    """The device by its name. Raises ConfigError for one that is neither the CPU nor a GPU, and for a GPU that torch
    does not find."""
    import torch

    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise ConfigError(f"device got {device!r}; need cpu, or cuda for a GPU") from None
    if found.type not in ("cpu", "cuda"):
        raise ConfigError(f"device got {device!r}; need cpu, or cuda for a GPU")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"device got {found}, and torch finds no GPU here; give cpu, or fix the driver")
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        last = torch.cuda.device_count() - 1
        raise ConfigError(f"device got {found}, and torch's GPUs here are cuda:0 to cuda:{last}; give one of them")
    return found


def ieee_convolutions(device: "torch.device") -> AbstractContextManager[None]:
    """cuDNN would compute fp32 convolutions in TF32, and a bias fitted there would not fit on a CPU."""
    import torch

    if device.type != "cuda":
        return nullcontext()
    return _ieee.joined(torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False))


class _ProcessWide:
    """A context for all threads: the first one enters it, and the last one leaves it."""

    def __init__(self) -> None:
        self._lock, self._inside, self._entered = threading.Lock(), 0, ExitStack()

    @contextmanager
    def joined(self, context: AbstractContextManager[None]) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._entered.enter_context(context)
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._entered.close()


_ieee = _ProcessWide()


@contextmanager
def torch_restored(device: "torch.device") -> Iterator[None]:
    """Leave torch's generators of the CPU and of `device`, and whether cuDNN is deterministic, as they were."""
    import torch

    deterministic = torch.backends.cudnn.deterministic
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []):
            yield
    finally:
        torch.backends.cudnn.deterministic = deterministic


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed blocks; False where the C library is another one.

    Otherwise each step gives the activations back and pays thousands of page faults to get them again (docs/speed.md).
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    trims_late = bool(mallopt(M_TRIM_THRESHOLD, 1 << 30))
    return trims_late and any(mallopt(M_MMAP_THRESHOLD, size) for size in MMAP_THRESHOLDS)
