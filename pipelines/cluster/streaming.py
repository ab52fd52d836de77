"""Images of a task that memory does not hold, decoded by Ray Data ahead of the worker that trains on them.

Chunks of rows go through tasks that decode them, and come back in the order of the training. The tasks run on the
worker's own machine, on the cores that the worker has reserved; images that are decoded and not yet used are bounded.
"""

import functools
import logging
import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import ray.data
from ray.exceptions import RayError

from proser_core.data.image_sets import ImageSource
from proser_core.data.stored import StoredImages
from proser_core.errors import DataError, first_line
from proser_core.jobs.spec import Job

CHUNK_BYTES = 8 << 20
"""Decoded images of one task: large enough that starting it costs little."""
WAITING_CHUNKS = 4
"""Chunks that may wait in the object store, in addition to one per task."""


def stream_opener(job: Job) -> Callable[[StoredImages], ImageSource]:
    """Opens streamed images in a worker of this job: one decoding task per core of the worker."""
    return lambda stored: RayImages(stored, job.threads)


class RayImages:
    """Stored images as `ImageSource`, read through Ray Data in this worker."""

    def __init__(self, stored: StoredImages, tasks: int) -> None:
        self._stored, self._tasks = stored, tasks

    def __len__(self) -> int:
        return len(self._stored)

    @property
    def size(self) -> int:
        """Height and width in pixels."""
        return self._stored.size

    def batches(self, rows: np.ndarray, batch_size: int) -> Generator[np.ndarray, None, None]:
        """See `ImageSource`; the arrays are read-only. Raises the DataError of a task that cannot decode an image."""
        dataset = self._decoded(rows, batch_size)
        try:
            for batch in dataset.iter_batches(batch_size=batch_size, batch_format="numpy", prefetch_batches=1):
                yield batch["image"]
        except RayError as error:
            raise as_data_error(error, "images cannot be streamed") from error

    def _decoded(self, rows: np.ndarray, batch_size: int) -> Any:
        """A Ray Dataset of the decoded images, in this order."""
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        length, (folder, name) = self._chunk_length(batch_size), self._stored.saved
        chunks = [{"rows": rows[start : start + length]} for start in range(0, len(rows), length)]
        with ray.data.DataContext.current(self._context(length, batch_size)):
            return ray.data.from_items(chunks, override_num_blocks=len(chunks)).map_batches(
                decode,
                batch_size=None,
                fn_kwargs={"folder": folder, "name": name, "size": self.size},
                concurrency=min(self._tasks, len(chunks)),
                num_cpus=0,  # the worker has reserved its cores; asking for more could wait forever
                label_selector={"ray.io/node-id": ray.get_runtime_context().get_node_id()},
            )

    def _chunk_length(self, batch_size: int) -> int:
        """Images per task; a multiple of the batch size where batches are small, so that none needs two tasks."""
        length = max(1, CHUNK_BYTES // (3 * self.size**2))
        return length - length % batch_size if length >= batch_size else length

    def _context(self, chunk_length: int, batch_size: int) -> Any:
        """Settings of Ray Data: results in the order of the chunks, and a bound on those that wait."""
        images = (2 * self._tasks + WAITING_CHUNKS) * chunk_length + 2 * batch_size
        context = ray.data.DataContext.get_current().copy()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True
        context.execution_options.resource_limits = ray.data.ExecutionResources.for_limits(
            object_store_memory=images * 3 * self.size**2
        )
        return context


def decode(batch: dict[str, np.ndarray], folder: str, name: str, size: int) -> dict[str, np.ndarray]:
    """Task: decode the images of one chunk of rows."""
    return {"image": _stored(folder, name, size).read(batch["rows"][0])}


@functools.lru_cache(maxsize=16)
def _stored(folder: str, name: str, size: int) -> StoredImages:
    """Stored images, mapped once for all tasks of a process."""
    return StoredImages.load(Path(folder), name, size)


def as_data_error(error: Exception, otherwise: str) -> DataError:
    """The reader's error, which Ray forwards as text where a task failed on an image, else one with Ray's message."""
    found = re.search(rf"{DataError.__module__}\.{DataError.__name__}: (.+)", str(error))
    return DataError(found[1] if found else f"{otherwise}: {first_line(error)}")
