"""Images of a task that memory does not hold, decoded by Ray Data ahead of the worker that trains on them.

The order is the training's own: chunks of rows go through tasks that decode them, and come back in
their order. The tasks run on the worker's own machine, in the cores that the worker has reserved; what is decoded and
not yet used is bounded.
"""

import functools
import logging
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np

from proser_core.data.image_sets import ImageSource
from proser_core.data.stored import StoredImages
from proser_core.errors import DataError
from proser_core.jobs.spec import Job

CHUNK_BYTES = 8 << 20
"""Decoded images of one task: large enough that starting it costs little."""
WAITING_CHUNKS = 4
"""Chunks, beside one for each task, that may wait in the object store."""


def opener(job: Job) -> Callable[[StoredImages], ImageSource]:
    """What a worker of this job reads streamed images with: a decoding task for each of its cores."""
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
        """See `ImageSource`; the arrays are read only. Raises DataError as a task that decodes does."""
        from ray.exceptions import RayError

        dataset = self._decoded(rows, self._chunk(batch_size))
        try:
            for batch in dataset.iter_batches(batch_size=batch_size, batch_format="numpy", prefetch_batches=1):
                yield batch["image"]
        except (DataError, RayError) as error:
            raise _as_data_error(error) from error

    def _chunk(self, batch_size: int) -> int:
        """Images of one task; whole batches where one is small, so that none is put together from two tasks."""
        chunk = max(1, CHUNK_BYTES // (3 * self.size**2))
        return max(chunk - chunk % batch_size, 1) if chunk >= batch_size else chunk

    def _decoded(self, rows: np.ndarray, chunk: int) -> Any:
        """A Ray Dataset of the decoded images, in this order."""
        import ray.data
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        chunks = [{"rows": rows[start : start + chunk]} for start in range(0, len(rows), chunk)]
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        folder, name = self._stored.saved
        with ray.data.DataContext.current(self._context(chunk)):
            return ray.data.from_items(chunks, override_num_blocks=len(chunks)).map_batches(
                decode,
                batch_size=None,
                fn_kwargs={"folder": folder, "name": name, "size": self.size},
                concurrency=self._tasks,
                num_cpus=0,  # the worker has reserved its cores; asking for more could wait for ever
                scheduling_strategy=here,
            )

    def _context(self, chunk: int) -> Any:
        import ray.data

        bytes_of_chunk = 3 * chunk * self.size**2
        context = ray.data.DataContext.get_current().copy()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True
        context.execution_options.resource_limits = ray.data.ExecutionResources.for_limits(
            object_store_memory=(2 * self._tasks + WAITING_CHUNKS) * bytes_of_chunk
        )
        return context


def decode(batch: dict[str, np.ndarray], folder: str, name: str, size: int) -> dict[str, np.ndarray]:
    """What a task does: the images of one chunk of rows."""
    return {"image": _stored(folder, name, size).read(batch["rows"][0])}


@functools.lru_cache(maxsize=16)
def _stored(folder: str, name: str, size: int) -> StoredImages:
    """Places of images, mapped once for all tasks of a process."""
    return StoredImages.load(Path(folder), name, size)


def _as_data_error(error: Exception) -> DataError:
    """The reader's own words where a task has failed on an image, else Ray's."""
    cause: BaseException | None = error
    while cause is not None:
        inner = getattr(cause, "cause", None) or cause.__cause__
        if isinstance(inner, DataError):
            return DataError(str(inner))
        cause = inner if isinstance(inner, BaseException) else None
    return DataError(f"images cannot be streamed: {error}")
