"""Processes that wait until they are told to take steps, so that groups of them can be timed in turn."""

import os
import queue
import socket
import time
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from benchmarks.harness.settings import Settings
from benchmarks.variants.setups import one_batch, our_step, rank_part, unwrapped
from proser_core.processor import keep_freed_memory


class Group(AbstractContextManager["Group"]):
    """`size` processes of `threads` threads: ranks of one DDP job, or each with its own training."""

    def __init__(self, settings: Settings, size: int, threads: int, *, ddp: bool, wait_policy: str | None) -> None:
        context = mp.get_context("spawn")
        self._orders = [context.SimpleQueue() for _ in range(size)]
        self._answers = context.Queue()
        self.images_per_step = settings.batch_size * (1 if ddp else size)
        world = (size, free_port()) if ddp else (1, 0)
        before = os.environ.get("OMP_WAIT_POLICY")
        _set("OMP_WAIT_POLICY", wait_policy)  # a child reads it when it loads torch
        self._processes = [
            context.Process(target=_serve, args=(rank, world, threads, settings, orders, self._answers), daemon=True)
            for rank, orders in enumerate(self._orders)
        ]
        for process in self._processes:
            process.start()
        _set("OMP_WAIT_POLICY", before)

    def steps(self, count: int) -> float:
        """Seconds until every process has taken `count` steps."""
        for orders in self._orders:
            orders.put(count)
        return max(self._answer() for _ in self._processes)

    def _answer(self) -> float:
        while True:
            try:
                return self._answers.get(timeout=5)
            except queue.Empty:
                if not all(process.is_alive() for process in self._processes):
                    raise RuntimeError("a benchmark process ended early; its error stands above") from None

    def __exit__(self, *_: Any) -> None:
        for orders in self._orders:
            orders.put(0)
        for process in self._processes:
            process.join(timeout=30)


def _serve(rank: int, world: tuple[int, int], threads: int, settings: Settings, orders: Any, answers: Any) -> None:
    torch.set_num_threads(threads)
    size, port = world
    keep_freed_memory()
    if size > 1:
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=size)
    step = our_step(settings, bf16=True, wrap=DistributedDataParallel if size > 1 else unwrapped)
    batch = rank_part(one_batch(settings), rank if size > 1 else 0, size)
    while count := orders.get():
        start = time.perf_counter()
        for _ in range(count):
            step(batch)
        answers.put(time.perf_counter() - start)
    os._exit(0)  # taking a gloo group down can hang; all answers have been read


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
