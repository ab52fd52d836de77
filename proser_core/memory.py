"""Memory of a training process: activations of one step are reused by the next, not fetched anew."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # glibc, malloc.h
LARGEST_MMAP_THRESHOLD = 32 << 20


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed blocks; False where the C library is another one.

    Otherwise each step gives the activations back and pays thousands of page faults to get them again (docs/speed.md).
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_TRIM_THRESHOLD, 1 << 30)) and bool(mallopt(M_MMAP_THRESHOLD, LARGEST_MMAP_THRESHOLD))
