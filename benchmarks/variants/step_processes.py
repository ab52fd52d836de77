"""Groups of processes that take steps on demand, so that they can be timed in turn."""

import os
import time
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from benchmarks.harness.processes import answer_of
from benchmarks.harness.settings import Settings
from benchmarks.variants.our_step import our_step, unwrapped
from benchmarks.variants.setups import one_batch, rank_part
from pipelines.ports import free_ports
from proser_core.processor import keep_freed_memory


class StepProcesses(AbstractContextManager["StepProcesses"]):
    """`size` processes of `threads` threads: ranks of one DDP job, or each with its own training.

    Their threads wait passively, or as OpenMP does by itself.
    """

    def __init__(self, settings: Settings, size: int, threads: int, *, ddp: bool, passive: bool = True) -> None:
        context = mp.get_context("spawn")
        self._orders = [context.SimpleQueue() for _ in range(size)]
        self._answers = context.Queue()
        self.images_per_step = settings.batch_size * (1 if ddp else size)
        world = (size, free_ports(1)[0]) if ddp else (1, 0)
        self._processes = [
            context.Process(target=_serve, args=(rank, world, threads, settings, orders, self._answers), daemon=True)
            for rank, orders in enumerate(self._orders)
        ]
        with mock.patch.dict(os.environ):  # a child reads it when it loads torch
            os.environ.pop("OMP_WAIT_POLICY", None)
            if passive:
                os.environ["OMP_WAIT_POLICY"] = "passive"
            for process in self._processes:
                process.start()

    def steps(self, count: int) -> float:
        """Seconds until every process has taken `count` steps."""
        for orders in self._orders:
            orders.put(count)
        return max(answer_of(self._processes, self._answers) for _ in self._processes)

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
