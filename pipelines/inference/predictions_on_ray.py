"""Predictions by a pool of actors on a Ray cluster, in the order of the images."""

import os
import pickle
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.cluster.session import join
from pipelines.cluster.streaming import as_data_error
from pipelines.inference.predictions import LOOKED_AT, Answer, answer
from proser_core.data.readers.image_files import Found, decoded, pieces
from proser_core.errors import ClusterError
from proser_core.recognition.open_set_classifier import OpenSetClassifier

if TYPE_CHECKING:
    from pipelines.inference.predicting import PredictRequest


def answers_on_cluster(
    classifier: OpenSetClassifier, request: "PredictRequest", found: Found
) -> Generator[Answer, None, None]:
    """Every machine must see the paths. `workers` 0 is one for each CPU, or for each GPU where `device` is cuda.

    Raises ClusterError where the cluster does not answer or is too small, DataError where its workers cannot go on.
    """
    join(request.address, option="--address")
    import ray
    import ray.data

    kind = "GPU" if request.device == "cuda" else "CPU"
    has = ray.cluster_resources().get(kind, 0)
    count = request.workers or max(1, int(has))
    if has < count:
        raise ClusterError(
            f"--workers {count} need a {kind} each; the cluster at {request.address} has {has:g}. Give fewer"
        )
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars, context.execution_options.preserve_order = False, True
    paths = [os.path.abspath(path) for path in request.paths]  # workers run in another folder
    work = [{"piece": pickle.dumps(piece)} for piece in pieces(paths, found)]
    dataset = ray.data.from_items(work, override_num_blocks=len(work)).map_batches(
        _Classifies,
        fn_constructor_args=(
            ray.put(classifier),
            request.device,
            0 if request.contact_sheet is None else LOOKED_AT,
        ),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(count, len(work))),
        num_cpus=1,
        num_gpus=1 if request.device == "cuda" else 0,
    )
    try:
        for row in dataset.iter_rows():
            yield row["answer"]
    except ray.exceptions.RayError as error:
        raise as_data_error(error, "the cluster cannot go on") from error


class _Classifies:
    """An actor: the classifier in memory, pieces in, answers out one by one."""

    def __init__(self, classifier: Any, device: str, looked_at: int) -> None:
        import ray
        import torch

        torch.set_num_threads(1)
        self._classifier = ray.get(classifier) if isinstance(classifier, ray.ObjectRef) else classifier
        self._device, self._looked_at, self._decoders = device, looked_at, ThreadPoolExecutor(2)

    def __call__(self, batch: dict[str, np.ndarray]) -> Iterator[dict[str, list[Answer]]]:
        size = self._classifier.image_size
        for piece in batch["piece"]:
            for part in decoded(pickle.loads(piece), size, self._decoders):
                yield {"answer": [answer(self._classifier, part, self._device, self._looked_at)]}
