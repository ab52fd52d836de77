"""Logits and embeddings of a finished training, computed once from its weights and kept in the storage."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from proser_core.config import FinetuneConfig, Recipe, decisive_network
from proser_core.data.tasks import OpenSetTask
from proser_core.digests import sha256_of
from proser_core.jobs.embedding import embed_task, embedded
from proser_core.jobs.spec import WEIGHTS
from proser_core.learning.training import scoring_device
from proser_core.networks.heads import as_on_backbone, load_heads, make_heads
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet, add_placeholders, make_closed_set_net
from proser_core.networks.weights import load_weights
from proser_core.recognition.embedding_table import compute_embedding_table, num_embedded, task_embeddings
from proser_core.recognition.logit_tables import EmbeddingTable, load_embeddings, save_embeddings
from proser_core.store.code_version import code_version
from proser_core.store.store import Artefact, Store

TABLES, FILE = "network_tables", "tables.npz"
COMPUTING = __name__


def trained_network(
    recipe: Recipe, finetune: FinetuneConfig | None, num_known: int, weights: Path
) -> ClosedSetNet | PlaceholderNet:
    """A network from its weights: that of a fine-tune, or the pretrained one; of a frozen backbone the heads. Only such
    a backbone needs the `network.weights_file` that it began with: others have all their weights in `weights`."""
    is_frozen = recipe.network.is_frozen("pretrain" if finetune is None else "finetune")
    network = recipe.network if is_frozen else replace(recipe.network, weights_file="")
    closed_set = make_closed_set_net(network, num_known, recipe.data.image_size, recipe.seed)
    net = _as_trained(closed_set, finetune, recipe.seed)
    (load_heads if is_frozen else load_weights)(net, weights)
    return net


def _trained_heads(
    recipe: Recipe, finetune: FinetuneConfig | None, task: OpenSetTask, weights: Path
) -> ClosedSetNet | PlaceholderNet:
    """Heads of a frozen backbone, for a task of its embeddings."""
    assert isinstance(task.train.images, np.ndarray)
    closed_set = make_heads(task.train.images, task.num_known, recipe.seed)
    net = _as_trained(closed_set, finetune, recipe.seed)
    load_weights(net, weights)
    return net


def _as_trained(closed_set: ClosedSetNet, finetune: FinetuneConfig | None, seed: int) -> ClosedSetNet | PlaceholderNet:
    """The network that was trained: with dummies, unless it is the pretrained one or the control."""
    num_dummies = _num_dummies(finetune)
    return add_placeholders(closed_set, num_dummies, seed) if num_dummies else closed_set


def _num_dummies(finetune: FinetuneConfig | None) -> int:
    return finetune.num_dummies if finetune is not None and finetune.objective == "proser" else 0


def table_inputs(
    recipe: Recipe, task: Artefact, folder: Path, finetune: FinetuneConfig | None, further: Artefact | None
) -> dict[str, Any]:
    """What decides the `network_tables` of a training."""
    return {
        "task": task.digest,
        "weights": sha256_of(folder / WEIGHTS),
        "network": decisive_network(recipe.network),
        "dummies": _num_dummies(finetune),
        "mirror": recipe.calibration.mirror,
        "seed": recipe.seed,
        "further": further.digest if further else "",
        "code": code_version(COMPUTING),
    }


def load_further(further: Artefact | None) -> dict[str, np.ndarray]:
    """The images of `further_development.further_images` by set."""
    folder = further.path if further else None
    return {path.stem: np.load(path, mmap_mode="r") for path in sorted(folder.glob("*.npy"))} if folder else {}


def network_tables(
    recipe: Recipe,
    task: Artefact,
    folder: Path,
    finetune: FinetuneConfig | None,
    store: Store,
    further: Artefact | None = None,
) -> dict[str, EmbeddingTable]:
    """Tables of a training in `folder`, by part as of `task_embeddings`, and of each further set of development
    unknowns by its name: found in the storage, or computed now."""
    inputs = table_inputs(recipe, task, folder, finetune, further)

    def build(made: Path) -> None:
        open_set_task, weights, device = OpenSetTask.load(task.path), folder / WEIGHTS, scoring_device(recipe)
        mirror, others = recipe.calibration.mirror, load_further(further)
        normalisation = open_set_task.mean, open_set_task.std
        whole = partial(trained_network, recipe, finetune, open_set_task.num_known, weights)
        with store.progress(TABLES, num_embedded(open_set_task) + sum(map(len, others.values()))) as progress:
            if recipe.network.is_frozen("pretrain" if finetune is None else "finetune") and not mirror:
                features = embedded(open_set_task, embed_task(recipe, task, store, lambda done, total: None).path)
                heads = as_on_backbone(_trained_heads(recipe, finetune, features, weights))
                tables = task_embeddings(heads, features, device, seed=recipe.seed, progress=progress)
            else:
                tables = task_embeddings(
                    whole(), open_set_task, device, seed=recipe.seed, mirror=mirror, progress=progress
                )
            for name, pixels in others.items():
                tables[name] = compute_embedding_table(
                    whole(), pixels, normalisation, device, mirror=mirror, progress=progress
                )
        save_embeddings(tables, made / FILE)

    return load_embeddings(store.run(TABLES, inputs, build).path / FILE)
