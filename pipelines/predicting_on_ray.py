"""Predictions by a pool of actors on a Ray cluster, in the order of the images."""

from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from pipelines.answers import Answer, answer
from pipelines.cluster import join
from proser_core.config import ClusterConfig
from proser_core.data.image_files import Found, decoded, pieces
from proser_core.errors import ClusterError, DataError, first_line
from proser_core.recognition.open_set_classifier import OpenSetClassifier


def answers_on_cluster(
    classifier: OpenSetClassifier, paths: Sequence[str], found: Found, address: str, workers: int, device: str
) -> Generator[Answer, None, None]:
    """Every machine must see the paths. `workers` 0 is one for each CPU, or for each GPU where `device` is cuda.

    Raises ClusterError where the cluster does not answer, or loses its workers.
    """
    join(ClusterConfig(address=address))
    import ray
    import ray.data

    kind = "GPU" if device == "cuda" else "CPU"
    resources = ray.cluster_resources()
    count = workers or max(1, int(resources.get(kind, 0)))
    if resources.get(kind, 0) < count:
        raise ClusterError(
            f"--workers {count} need a {kind} each; the cluster at {address} has {resources.get(kind, 0):g}. Give fewer"
        )
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars, context.execution_options.preserve_order = False, True
    work = [{"piece": piece} for piece in pieces(paths, found)]
    dataset = ray.data.from_items(work, override_num_blocks=len(work)).map_batches(
        _Classifies,
        fn_constructor_args=(ray.put(classifier), device),
        batch_size=1,
        concurrency=min(count, len(work)),
        num_cpus=1,
        num_gpus=1 if device == "cuda" else 0,
    )
    try:
        for row in dataset.iter_rows():
            yield row["answer"]
    except ray.exceptions.RayError as error:
        raise DataError(f"the cluster could not go on ({first_line(error)})") from error


class _Classifies:
    """An actor: the classifier in memory, pieces in, answers out."""

    def __init__(self, classifier: Any, device: str) -> None:
        import ray
        import torch

        torch.set_num_threads(1)
        self._classifier = ray.get(classifier) if isinstance(classifier, ray.ObjectRef) else classifier
        self._device, self._decoders = device, ThreadPoolExecutor(2)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[Answer]]:
        size = self._classifier.image_size
        parts = [part for piece in batch["piece"] for part in decoded(piece, size, self._decoders)]
        return {"answer": [answer(self._classifier, part, self._device) for part in parts]}
