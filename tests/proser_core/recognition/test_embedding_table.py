"""Logits and embeddings in one pass, of an image alone or averaged with its mirror image."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_tasks import CPU, NORMALISATION, labelled, random_images, small_task, tiny_closed_set_net, tiny_net
from streamed_images import Streamed
from torch import nn

from proser_core.data.normalisation import Normaliser
from proser_core.data.splits.class_split import ClassSplit
from proser_core.data.tasks import Labelled
from proser_core.errors import ConfigError, TrainingError
from proser_core.recognition import embedding_table
from proser_core.recognition.embedding_table import compute_embedding_table, index_rows, num_embedded, task_embeddings
from proser_core.recognition.logit_tables import SCORED_PARTS, TRAIN, EmbeddingTable, load_embeddings, save_embeddings
from proser_core.recognition.logits import compute_logits, task_logits

IMAGES = random_images(40, seed=5)


@pytest.mark.parametrize("net", [tiny_net(3, 2), tiny_closed_set_net(3)], ids=["placeholders", "closed set"])
def test_one_pass_gives_the_logits_the_embeddings_and_the_classifier(net):
    found, logits = (each(net, IMAGES, NORMALISATION, CPU) for each in (compute_embedding_table, compute_logits))
    np.testing.assert_array_equal(found.known, logits.known)
    np.testing.assert_array_equal(found.dummies, logits.dummies)
    with torch.inference_mode():
        embeddings = net.backbone(Normaliser(NORMALISATION, CPU)(torch.from_numpy(IMAGES))).numpy()
    np.testing.assert_allclose(found.embeddings, embeddings, atol=1e-5)
    np.testing.assert_allclose(found.embeddings @ found.weights.T + found.biases, found.known, atol=1e-5)


def test_a_mirrored_evaluation_is_the_mean_over_the_image_and_its_mirror_image():
    net = tiny_net(3, 2)
    mirrored = compute_embedding_table(net, IMAGES, NORMALISATION, CPU, mirror=True)
    plain, flipped = (
        compute_embedding_table(net, images, NORMALISATION, CPU) for images in (IMAGES, IMAGES[:, :, ::-1])
    )
    for name in ("known", "dummies", "embeddings"):
        each = (getattr(plain, name) + getattr(flipped, name)) / 2
        np.testing.assert_allclose(getattr(mirrored, name), each, atol=1e-5)
    again = compute_embedding_table(net, IMAGES[:, :, ::-1], NORMALISATION, CPU, mirror=True)
    np.testing.assert_allclose(again.known, mirrored.known, atol=1e-6)
    assert np.abs(mirrored.known - plain.known).max() > 1e-3


def test_the_tables_of_a_task_are_saved_and_read_again(tmp_path):
    task = small_task()
    counts = list[int]()
    tables = task_embeddings(tiny_net(2, 2), task, CPU, progress=counts.append)
    assert sum(counts) == num_embedded(task)
    assert {part: len(table) for part, table in tables.items()} == {
        **{part: len(getattr(task, part)) for part in SCORED_PARTS},
        TRAIN: len(task.train),
    }
    save_embeddings(tables, tmp_path / "embeddings.npz")
    loaded = load_embeddings(tmp_path / "embeddings.npz")
    assert list(loaded) == list(tables)
    for part, table in tables.items():
        for name, array in vars(table).items():
            np.testing.assert_array_equal(getattr(loaded[part], name), array, strict=True)


def test_a_large_set_is_fitted_to_a_draw_of_its_training_images(monkeypatch):
    monkeypatch.setattr(embedding_table, "INDEX_SIZE", 5)
    task, net = small_task(), tiny_net(2, 2)
    rows = index_rows(task, seed=3)
    assert len(set(rows)) == 5
    assert (np.diff(rows) > 0).all()
    assert list(rows) != list(index_rows(task, seed=4))
    expected = compute_embedding_table(net, task.train.images[rows], (task.mean, task.std), CPU)
    found = task_embeddings(net, task, CPU, seed=3)[TRAIN]
    np.testing.assert_array_equal(found.embeddings, expected.embeddings)
    streamed = replace(task, train=Labelled(Streamed(task.train.images), task.train.targets))
    np.testing.assert_array_equal(task_embeddings(net, streamed, CPU, seed=3)[TRAIN].known, expected.known)


@pytest.mark.parametrize("seed", range(20))
def test_a_rare_class_is_among_the_images_that_scores_are_fitted_to(monkeypatch, seed):
    monkeypatch.setattr(embedding_table, "INDEX_SIZE", 50)
    targets = np.repeat([0, 1, 2], [900, 4, 96])
    split, train = ClassSplit((0, 1, 2), (3,), (1,)), Labelled(np.zeros((1000, 1)), targets)
    task = replace(small_task(), split=split, train=train, development=labelled(0))
    counts = np.bincount(targets[index_rows(task, seed)])
    assert counts.sum() == 50
    assert counts[1] == 4
    assert counts[2] >= 10
    assert counts[0] > 2 * counts[2], "they are drawn, not balanced"


def test_many_classes_have_one_image_each(monkeypatch):
    monkeypatch.setattr(embedding_table, "INDEX_SIZE", 100)
    split = ClassSplit(tuple(range(100)), (100,), (1,))
    train = Labelled(np.zeros((1000, 1)), np.arange(1000) % 100)
    task = replace(small_task(), split=split, train=train, development=labelled(0))
    assert sorted(task.train.targets[index_rows(task, 0)]) == list(range(100))


@pytest.mark.parametrize("compute", [compute_logits, compute_embedding_table])
def test_a_network_never_gets_an_empty_batch(compute):
    """Many of timm's cannot reshape one."""
    net = tiny_net(3, 2)

    def refuse(module, inputs):
        assert len(inputs[0])

    net.backbone.register_forward_pre_hook(refuse)
    assert len(compute(net, IMAGES[:0], NORMALISATION, CPU)) == 0


def test_a_task_without_development_unknowns_has_an_empty_table_of_them():
    task = small_task()
    task = replace(task, development=Labelled(task.development.images[:0], np.zeros(0, np.int64)))
    table = task_embeddings(tiny_net(2, 2), task, CPU)["development"]
    assert isinstance(table, EmbeddingTable)
    assert (table.known.shape, table.embeddings.shape) == ((0, 2), (0, 10))


def test_a_network_that_has_diverged_or_has_no_embedding_is_refused():
    net = tiny_net(2, 2)
    with torch.no_grad():
        net.classifier.bias[0] = torch.nan
    with pytest.raises(TrainingError, match="not finite"):
        task_embeddings(net, small_task(), CPU)
    with pytest.raises(ConfigError, match="no single linear classifier on an embedding"):
        compute_embedding_table(nn.Flatten(), IMAGES, NORMALISATION, CPU)


@pytest.mark.parametrize("part", [*SCORED_PARTS, TRAIN])
def test_one_image_of_any_part_whose_logits_are_not_finite_is_refused(part):
    task, net = small_task(), tiny_closed_set_net(2)
    getattr(task, part).images[3] = 255

    def diverge(module, inputs, embeddings):
        return embeddings.where(inputs[0].amin((1, 2, 3), keepdim=True).flatten(1) < 1.9, torch.nan)  # but for white

    net.backbone.register_forward_hook(diverge)
    with pytest.raises(TrainingError, match="not finite"):
        task_embeddings(net, task, CPU)
    with pytest.raises(TrainingError, match="not finite"):
        task_logits(net, task, CPU, with_training=True)
