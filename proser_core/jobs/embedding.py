"""Frozen features: what a pretrained backbone gives for each image of a task, computed once and kept on disk.

Heads are then trained on embeddings as on images: a task of them takes the place of the task of images.
"""

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proser_core.config import Recipe
from proser_core.data.image_sets import chunks
from proser_core.data.normalisation import evaluation_batches
from proser_core.data.tasks import TASK_PARTS, Labelled, OpenSetTask
from proser_core.jobs.spec import EMBEDDINGS, embedding_inputs
from proser_core.learning.training import scoring_device
from proser_core.networks.nets import make_closed_set_net
from proser_core.processor import hardware, ieee_convolutions
from proser_core.store.store import MANIFEST, Artefact, Manifest, Store, load_if_complete

AT_ONCE = 16
"""Images of a forward pass, always, each on one core: kernels round by both numbers, and an embedding may not depend on
how many images other tasks leave to be done, or on the cores of a machine."""
Progress = Callable[[int, int], None]
"""Called with the number of images that have their embedding, and of all."""
Arrays = dict[str, np.ndarray]
Known = dict[bytes, np.ndarray]
"""Embeddings float32[d] by the SHA-256 of an image's pixels."""


def embed_task(recipe: Recipe, task: Artefact, store: Store, progress: Progress) -> Artefact:
    """The embeddings of all images of a task, found or computed now; an image that another task of the storage has,
    is taken from there."""
    inputs = embedding_inputs(recipe, task)

    def build(folder: Path) -> None:
        known = _known(store.root, inputs)
        for name, arrays in _embeddings(recipe, OpenSetTask.load(task.path), known, progress).items():
            np.savez(folder / f"{name}.npz", allow_pickle=False, **arrays)

    return store.run(EMBEDDINGS, inputs, build, made_on=hardware(scoring_device(recipe).type == "cuda"))


def _embeddings(recipe: Recipe, task: OpenSetTask, known: Known, progress: Progress) -> dict[str, Arrays]:
    """The arrays of each part: embeddings float32[N, d] and the images' digests uint8[N, 32]."""
    device = scoring_device(recipe)
    net = make_closed_set_net(recipe.network, task.num_known, task.image_size, recipe.seed).backbone
    net.to(device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    parts = {name: getattr(task, name) for name in TASK_PARTS}
    keys: dict[str, list[bytes]] = {name: [] for name in TASK_PARTS}
    waiting: dict[bytes, np.ndarray] = {}
    done, total = 0, sum(map(len, parts.values()))
    threads = torch.get_num_threads()
    side_by_side = threads if device.type == "cpu" else 1
    forward = partial(_forward, net, task, next(net.parameters()).device)  # "cuda" is each thread's own current GPU

    def forward_waiting(pool: ThreadPoolExecutor) -> None:
        first = list(waiting)[: AT_ONCE * side_by_side]
        images = [waiting.pop(key) for key in first]
        images += images[-1:] * (-len(first) % AT_ONCE)
        passes = pool.map(forward, np.stack(images).reshape(-1, AT_ONCE, *images[0].shape))
        known.update(zip(first, chain.from_iterable(passes), strict=False))  # without what fills the last pass

    try:
        with ThreadPoolExecutor(side_by_side, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for name, part in parts.items():
                for images in chunks(part.images, AT_ONCE * side_by_side):
                    hashed = [hashlib.sha256(image.tobytes()).digest() for image in images]
                    waiting |= {key: image for key, image in zip(hashed, images, strict=True) if key not in known}
                    keys[name] += hashed
                    if len(waiting) >= AT_ONCE * side_by_side:
                        forward_waiting(pool)
                    done += len(hashed)
                    progress(done - len(waiting), total)
            if waiting:
                forward_waiting(pool)
                progress(total, total)
    finally:
        torch.set_num_threads(threads)  # which is not each thread's own in all libraries of torch
    return {
        name: {
            "embeddings": np.array([known[key] for key in each], np.float32).reshape(-1, net.embedding_size),
            "digests": np.frombuffer(b"".join(each), np.uint8).reshape(-1, 32),
        }
        for name, each in keys.items()
    }


@torch.inference_mode()
def _forward(net: torch.nn.Module, task: OpenSetTask, device: torch.device, images: np.ndarray) -> np.ndarray:
    """float32[n, d] of uint8[n, H, W, 3], in fp32."""
    batches = evaluation_batches(images, (task.mean, task.std), device)
    with ieee_convolutions(device):
        return torch.cat([net(batch).float().cpu() for batch in batches]).numpy()


def _known(root: Path, inputs: dict[str, Any]) -> Known:
    """Embeddings by the same network in the storage, of other tasks with the same normalisation."""
    known: Known = {}
    same = {name: value for name, value in inputs.items() if name != "task"}
    for path in (root / EMBEDDINGS).glob(f"*/{MANIFEST}"):
        if not inputs["normalisation"] or load_if_complete(path.parent) is None:
            continue
        recorded = Manifest.read(path.parent).inputs
        if all(recorded.get(name) == value for name, value in same.items()):
            for part in TASK_PARTS:
                with np.load(path.with_name(f"{part}.npz")) as arrays:
                    known |= dict(zip(map(bytes, arrays["digests"]), arrays["embeddings"], strict=True))
    return known


def embedded(task: OpenSetTask, folder: Path) -> OpenSetTask:
    """The task with float32[N, d], which `embed_task` wrote into `folder`, in the place of its images."""
    return with_embeddings(task, {name: np.load(folder / f"{name}.npz")["embeddings"] for name in TASK_PARTS})


def embedded_in_memory(task: OpenSetTask, recipe: Recipe) -> OpenSetTask:
    """As `embedded`, computed now and not kept."""
    found = _embeddings(recipe, task, {}, lambda done, total: None)
    return with_embeddings(task, {name: arrays["embeddings"] for name, arrays in found.items()})


def with_embeddings(task: OpenSetTask, embeddings: dict[str, np.ndarray]) -> OpenSetTask:
    """The task with embeddings float32[N, d] by part in the place of its images."""
    parts = {name: Labelled(rows, getattr(task, name).targets) for name, rows in embeddings.items()}
    return replace(task, **parts)  # type: ignore[arg-type]
