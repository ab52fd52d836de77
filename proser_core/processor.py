"""What the processor can do, from its flags; never from a timing, which would differ between runs."""

import functools
import os
import platform
from pathlib import Path

from proser_core.config import Recipe

BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}  # Intel and AMD; Arm


@functools.cache
def has_bf16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the CPU multiplies bf16 in hardware; False where the flags cannot be read."""
    if not cpuinfo.is_file():
        return False
    lines = (line for line in cpuinfo.read_text().splitlines() if line.lower().startswith(("flags", "features")))
    return bool(BF16_FLAGS & set(next(lines, "").split()))


def hardware(uses_gpu: bool) -> str:
    """The processor and cores of this machine for people, its GPU where that one trains, and torch's version."""
    import torch

    host = f"{os.cpu_count()} cores of {processor_name()}, torch {torch.__version__}"
    return f"{torch.cuda.get_device_name()}, {host}" if uses_gpu else host


def processor_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Model, family and stepping, where Linux has them."""
    names = {"model name": "", "cpu family": "", "model": "", "stepping": ""}
    if not cpuinfo.is_file():
        return platform.processor() or "unknown"
    for line in cpuinfo.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in names:
            names[name.strip()] = value.strip()
    return f"{names['model name']} (family {names['cpu family']}, model {names['model']}, step {names['stepping']})"


def resolve_precision(recipe: Recipe) -> bool:
    """Whether training runs in bf16: as the recipe says, or where the hardware has it."""
    if recipe.precision != "auto":
        return recipe.precision == "bf16"
    return recipe.cluster.uses_gpu or has_bf16()
