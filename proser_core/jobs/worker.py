"""What a training worker does: one pretraining or one fine-tune, from files to files.

Knows no Ray: every process of a job calls `run_job`, and rank 0 writes. After each epoch the checkpoint and the metrics
are on disk before `notify` is called, so that a job that is started again goes on from its last epoch.
"""

import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from proser_core.config import Recipe, from_json
from proser_core.data.tasks import OpenSetTask, OpenStream
from proser_core.errors import ProserError
from proser_core.jobs.embedding import embedded
from proser_core.jobs.spec import EPOCHS, FAILURE, LOGITS, STATE, WEIGHTS, Job, read_epochs, write_failure
from proser_core.learning.fit import Metrics, State
from proser_core.learning.ranks import current_world
from proser_core.learning.training import train_network, training_device
from proser_core.networks.heads import as_on_backbone, load_heads, make_heads
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet, make_closed_set_net
from proser_core.networks.weights import load_weights, save_weights
from proser_core.processor import hardware, keep_freed_memory
from proser_core.recognition.logit_tables import save_logits
from proser_core.recognition.logits import task_logits
from proser_core.store.files import disk_full_errors, remove_partial_files, write_atomically
from proser_core.store.store import MANIFEST, write_manifest


def run_job(job: Job, notify: Callable[[Metrics], None], open_stream: OpenStream = lambda stored: stored) -> None:
    """Train, then score every image, in this process of the job's workers.

    `open_stream` reads the images of a task that memory does not hold; the default reads them in this process.
    Raises TrainingError where the loss or the outcome is not finite, StorageError where the disk is full. A
    ProserError's message is written into the folder, if there is room for it.
    """
    rank = current_world()[0]
    with working_on(job, write=rank == 0):
        recipe, task = from_json(Recipe, job.recipe), OpenSetTask.load(Path(job.task), open_stream)
        if job.embeddings:
            task = embedded(task, Path(job.embeddings))
            # a step is too small for a GPU, and this process may have none
            recipe = replace(recipe, cluster=replace(recipe.cluster, gpus_per_worker=0.0))
        net, seconds = _train(job, recipe, task, notify)
        if rank == 0:
            _finish(job, recipe, net, task, seconds)


@contextmanager
def working_on(job: Job, *, write: bool = True) -> Iterator[None]:
    """Do a job in this process, with its threads; one process of several clears the job's folder and may `write` there.

    A ProserError's message is written into the folder, if there is room for it. Raises StorageError where the disk is
    full.
    """
    torch.set_num_threads(job.threads)
    keep_freed_memory()
    folder = Path(job.folder)
    if write:
        folder.mkdir(parents=True, exist_ok=True)
        clear_folder(folder)
    try:
        with disk_full_errors(folder):
            yield
    except ProserError as error:
        if write:
            write_failure(folder, str(error))
        raise


def _train(
    job: Job, recipe: Recipe, task: OpenSetTask, notify: Callable[[Metrics], None]
) -> tuple[ClosedSetNet | PlaceholderNet, float]:
    """The job's network after training, and the seconds of its epochs; a user's own pretrained weights are taken as
    they are."""
    if job.embeddings:
        assert isinstance(task.train.images, np.ndarray)
        net = make_heads(task.train.images, task.num_known, recipe.seed)
    else:
        net = make_closed_set_net(recipe.network, task.num_known, recipe.data.image_size, recipe.seed)
    if job.weights:
        are_heads = recipe.network.is_frozen("pretrain") and not job.embeddings
        (load_heads if are_heads else load_weights)(net, Path(job.weights))
    if job.kind == "pretrain" and job.weights:
        return net.to(training_device(recipe)), 0.0
    rank, world_size = current_world()
    durable = DurableReport(Path(job.folder), notify, write=rank == 0)

    def with_workers(epoch: int, metrics: Metrics, state: State) -> None:
        durable(epoch, {**metrics, "train/workers": float(world_size)}, state)

    recipe = replace(recipe, data=task.augmented(recipe.data))
    trained = train_network(
        job.kind,
        net,
        task.train,
        (task.mean, task.std),
        recipe,
        bf16=job.bf16 and not job.embeddings,
        report=with_workers if recipe.cluster.is_elastic(job.kind) else durable,
        resume=durable.last_state(training_device(recipe)),
    )
    return trained, durable.seconds


def _finish(job: Job, recipe: Recipe, net: ClosedSetNet | PlaceholderNet, task: OpenSetTask, seconds: float) -> None:
    folder, device = Path(job.folder), training_device(recipe)
    scored = as_on_backbone(net) if job.embeddings else net
    tables = task_logits(scored, task, device, with_training=job.kind == "pretrain")  # scores are fitted to its own
    with sealed(job, seconds, device, (LOGITS, WEIGHTS)):
        save_logits(tables, folder / LOGITS)
        save_weights(net, folder / WEIGHTS)


@contextmanager
def sealed(job: Job, seconds: float, device: torch.device, names: Sequence[str]) -> Iterator[None]:
    """Write files by these names in it, and the job's folder is an artefact, without what only a training needs. Raises
    OSError, without halves of files, where the disk is full."""
    folder, passing = Path(job.folder), (STATE, FAILURE)
    try:
        yield
    except OSError:  # half of them only fills a full disk
        for name in names:
            (folder / name).unlink(missing_ok=True)
        raise
    # before the checkpoint goes: a crash in between would train all again
    write_manifest(folder, job.inputs, seconds=seconds, passing=passing, made_on=hardware(device.type == "cuda"))
    for name in passing:
        (folder / name).unlink(missing_ok=True)


def clear_folder(folder: Path) -> None:
    """Remove what an earlier attempt left; its epochs stay where a checkpoint goes on from them."""
    remove_partial_files(folder)
    stale = (FAILURE, MANIFEST) if (folder / STATE).is_file() else (FAILURE, MANIFEST, EPOCHS)
    for name in stale:
        (folder / name).unlink(missing_ok=True)


class DurableReport:
    """Checkpoint and metrics on disk, rank 0 writing, then `notify` on every rank.

    `seconds` are those of the epochs that were reported, by this attempt and by those that it goes on from, without
    what reporting takes.
    """

    def __init__(self, folder: Path, notify: Callable[[Metrics], None], *, write: bool) -> None:
        self._folder, self._notify, self._write = folder, notify, write
        self.seconds, self._began = 0.0, time.monotonic()

    def __call__(self, epoch: int, metrics: Metrics, state: State) -> None:
        """Make the epoch durable, then say so."""
        self.seconds += time.monotonic() - self._began
        if self._write:
            rows = [row for row in read_epochs(self._folder) if row["epoch"] < epoch]
            lines = [json.dumps(row) for row in [*rows, {"epoch": epoch, **metrics}]]
            # the checkpoint last: a crash in between repeats the epoch and writes its row again
            write_atomically(self._folder / EPOCHS, "\n".join(lines).encode())
            checkpoint = io.BytesIO()
            torch.save({**state, "seconds": self.seconds}, checkpoint)
            write_atomically(self._folder / STATE, checkpoint.getvalue())
        self._notify(metrics)
        self._began = time.monotonic()

    def last_state(self, device: torch.device) -> State | None:
        """The state of the last epoch that was reported from this folder."""
        path = self._folder / STATE
        if not path.is_file():
            return None
        state: State = torch.load(path, map_location=device, weights_only=True)
        self.seconds = state["seconds"]
        return state
