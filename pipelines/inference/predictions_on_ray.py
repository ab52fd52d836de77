"""Predictions of a pool of workers on a Ray cluster, in the order of the images."""

import functools
import itertools
import pickle
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import ray.data
import torch

from pipelines.cluster.session import check_room, free_places, join
from pipelines.cluster.streaming import as_data_error
from pipelines.inference.predictions import PredictedPart, predict_part
from proser_core.data.readers.image_files import Outputs, decoded, pieces
from proser_core.errors import ClusterError
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.store.files import absolute

WINDOW = 4096
"""Pieces that Ray Data is given at a time: a million files, some 100 MB of paths."""


def predict_paths_on_ray(
    classifier: OpenSetClassifier,
    paths: Sequence[str],
    outputs: Outputs,
    address: str,
    workers: int = 0,
    device: str = "cpu",
    num_kept: int = 0,
) -> Generator[PredictedPart, None, None]:
    """As `predict_paths`, by the cluster at `address`; every machine must see the paths. `workers` 0 is one for each
    free CPU, or for each free GPU where `device` is cuda.

    Raises ClusterError where the cluster does not answer, is too small or busy, DataError where its workers fail.
    """
    join(address, option="--address")
    if workers:
        check_room("--workers", workers, device, address)
    count = workers or free_places(device)
    if not count:
        kind = "CPU" if device == "cpu" else "CPU and GPU"
        raise ClusterError(f"the cluster at {address} has no free {kind}; wait for what runs there, or add a machine")
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars, context.execution_options.preserve_order = False, True
    named = [absolute(path) for path in paths]  # workers run in another folder
    work = ({"piece": pickle.dumps(piece)} for piece in pieces(named, outputs))
    arguments = (ray.put(classifier), device, num_kept)
    while window := list(itertools.islice(work, WINDOW)):
        size = min(count, len(window))
        how: dict[str, Any] = {"fn": _predict, "fn_args": arguments, "compute": ray.data.TaskPoolStrategy(size=size)}
        if device == "cuda":
            pool = ray.data.ActorPoolStrategy(size=size)
            how = {"fn": _OnGpu, "fn_constructor_args": arguments, "compute": pool, "num_gpus": 1}
        dataset = ray.data.from_items(window, override_num_blocks=len(window))
        dataset = dataset.map_batches(**how, batch_size=1, num_cpus=1)
        try:
            for row in dataset.iter_rows():
                yield row["part"]
        except ray.exceptions.RayError as error:
            raise as_data_error(error, "prediction on the cluster failed") from error


def _predict(
    batch: dict[str, np.ndarray], given: ray.ObjectRef, device: str, num_kept: int
) -> Iterator[dict[str, list[PredictedPart]]]:
    """Task: a piece in, its predicted parts out one by one."""
    classifier, decoders = _loaded(given)
    for part in decoded(pickle.loads(batch["piece"][0]), classifier.image_size, decoders):
        yield {"part": [predict_part(classifier, part, device, num_kept)]}


@functools.lru_cache(maxsize=1)
def _loaded(given: ray.ObjectRef) -> tuple[OpenSetClassifier, ThreadPoolExecutor]:
    """The classifier, in memory for all tasks of a process, and the threads that decode for it."""
    torch.set_num_threads(1)
    return ray.get(given), ThreadPoolExecutor(2)


class _OnGpu:
    """The same as an actor, which keeps its GPU: processes that Ray gives task after task could end up on one. Ray
    Data prints an error line about the arguments of each such pool, which tasks do not have."""

    def __init__(self, given: ray.ObjectRef, device: str, num_kept: int) -> None:
        self._arguments = given, device, num_kept

    def __call__(self, batch: dict[str, np.ndarray]) -> Iterator[dict[str, list[PredictedPart]]]:
        yield from _predict(batch, *self._arguments)
