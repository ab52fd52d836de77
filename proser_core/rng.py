"""Randomness without state: every draw is keyed by (seed, purpose, epoch, step).

A resumed run therefore draws what a run that never stopped would have drawn, and two
workers draw for the whole global batch what one worker would.
"""

import zlib

import numpy as np

from proser_core.errors import ConfigError


def keyed_generator(seed: int, purpose: str, *indices: int) -> np.random.Generator:
    """Generator that depends on its arguments alone; `indices` are usually (epoch, step).

    A purpose always comes with the same number of indices: NumPy pads the key with zeros. Raises ConfigError for a
    seed that is no integer, or below 0.
    """
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed is {seed!r}; need an integer, 0 or above")
    return np.random.default_rng([seed, zlib.crc32(purpose.encode()), *indices])


def keyed_seed(seed: int, purpose: str, *indices: int) -> int:
    """A 63-bit seed for generators that are not NumPy's (torch's, for instance)."""
    return int(keyed_generator(seed, purpose, *indices).integers(2**63 - 1))
