"""Time variants in turn (A B A B ...), so that a drift of the machine hits all of them alike."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch

from benchmarks.harness.settings import Settings

Variants = Mapping[str, Callable[[], object]]
Samples = dict[str, list[float]]


def alternate(variants: Variants, settings: Settings, *, warmup: int = 1, rounds: int = 0) -> Samples:
    """Seconds of one call of each variant, once per round; every variant is warmed up first.

    A sample of a fast variant is the mean of as many calls as fill `settings.sample_seconds`. Without `rounds`, there
    are as many as the settings have.
    """
    for call in variants.values():
        for _ in range(warmup):
            call()
    fill = settings.sample_seconds
    calls = {name: max(1, math.ceil(fill / max(seconds_of(call), 1e-7))) for name, call in variants.items()}
    samples: Samples = {name: [] for name in variants}
    for _ in range(rounds or settings.rounds):
        for name, call in variants.items():
            samples[name].append(seconds_of(call, calls[name]) / calls[name])
    return samples


def seconds_of(call: Callable[[], object], calls: int = 1) -> float:
    """Seconds of so many calls, until a GPU has finished them."""
    _wait_for_gpu()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    _wait_for_gpu()
    return time.perf_counter() - start


def _wait_for_gpu() -> None:
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


@contextmanager
def on_threads(threads: int) -> Iterator[None]:
    """Give torch so many threads, and then as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def ratios(samples: Samples, slow: str, fast: str) -> np.ndarray:
    """How many times as fast `fast` is as `slow`, in each round."""
    return np.array(samples[slow]) / np.array(samples[fast])


def median_ratio(samples: Samples, slow: str, fast: str) -> float:
    """The median of these ratios over the rounds."""
    return spread(ratios(samples, slow, fast))[0]


def spread(values: list[float] | np.ndarray) -> tuple[float, float, float]:
    """Median, first and third quartile."""
    low, median, high = np.quantile(np.asarray(values, dtype=float), [0.25, 0.5, 0.75])
    return float(median), float(low), float(high)
