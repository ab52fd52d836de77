"""Predictions of a pool of actors on a Ray cluster, in the order of the images."""

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
from proser_core.data.readers.image_files import Found, decoded, pieces
from proser_core.errors import ClusterError
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.store.files import absolute

WINDOW = 4096
"""Pieces that Ray Data is given at a time, with actors of their own: a million files, some 100 MB of paths."""


def predict_paths_on_ray(
    classifier: OpenSetClassifier,
    paths: Sequence[str],
    found: Found,
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
    work, given = ({"piece": pickle.dumps(piece)} for piece in pieces(named, found)), ray.put(classifier)
    while window := list(itertools.islice(work, WINDOW)):
        dataset = ray.data.from_items(window, override_num_blocks=len(window)).map_batches(
            _Predictor,
            fn_constructor_args=(given, device, num_kept),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(count, len(window))),
            num_cpus=1,
            num_gpus=1 if device == "cuda" else 0,
        )
        try:
            for row in dataset.iter_rows():
                yield row["part"]
        except ray.exceptions.RayError as error:
            raise as_data_error(error, "prediction on the cluster failed") from error


class _Predictor:
    """An actor with the classifier in memory: pieces in, predicted parts out one by one."""

    def __init__(self, classifier: Any, device: str, num_kept: int) -> None:
        torch.set_num_threads(1)
        self._classifier = ray.get(classifier) if isinstance(classifier, ray.ObjectRef) else classifier
        self._device, self._num_kept, self._decoders = device, num_kept, ThreadPoolExecutor(2)

    def __call__(self, batch: dict[str, np.ndarray]) -> Iterator[dict[str, list[PredictedPart]]]:
        size = self._classifier.image_size
        for piece in batch["piece"]:
            for part in decoded(pickle.loads(piece), size, self._decoders):
                yield {"part": [predict_part(self._classifier, part, self._device, self._num_kept)]}
