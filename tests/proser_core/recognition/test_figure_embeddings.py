"""Embeddings, the heads on them, and embeddings of mixtures, beside the networks they come from."""

import numpy as np
import pytest
import torch
from small_tasks import CPU, NORMALISATION, random_images

from proser_core.config import NetworkConfig
from proser_core.data.normalisation import Normaliser, evaluation_batches
from proser_core.data.tasks import Labelled
from proser_core.learning.mixup import draw_mix
from proser_core.networks.nets import add_placeholders, make_closed_set_net
from proser_core.recognition.embedding_table import compute_embedding_table
from proser_core.recognition.figure_embeddings import MIXED_AT_ONCE, head_logits, mixed_embeddings
from proser_core.recognition.logits import compute_logits

PLANE = NetworkConfig(backbone="classifier32_2d")
IMAGES = random_images(40)
TARGETS = np.arange(40) % 3


def net_2d():
    return add_placeholders(make_closed_set_net(PLANE, 3, 8, seed=0), 2, seed=0).eval()


def test_the_heads_on_the_embeddings_of_images_are_the_networks_own_logits():
    net = net_2d()
    embeddings = compute_embedding_table(net, IMAGES, NORMALISATION, CPU).embeddings
    assert embeddings.shape == (40, 2)
    on_points, own = head_logits(net, embeddings), compute_logits(net, IMAGES, NORMALISATION, CPU)
    np.testing.assert_allclose(on_points.known, own.known, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(on_points.dummies, own.dummies, rtol=1e-5, atol=1e-6)


def test_a_closed_set_net_has_no_dummies_on_points_either():
    logits = head_logits(make_closed_set_net(PLANE, 3, 8, seed=0), np.zeros((5, 2)))
    assert logits.known.shape == (5, 3)
    assert logits.dummies.shape == (5, 0)


@pytest.mark.parametrize("mixup", ["manifold", "vanilla"])
def test_mixtures_do_not_depend_on_a_batch_and_are_as_many_as_asked_for(mixup):
    known, net = Labelled(IMAGES, TARGETS), net_2d()
    few, more = (mixed_embeddings(net, known, NORMALISATION, mixup=mixup, alpha=2, seed=1, count=n) for n in (5, 15))
    assert (few.shape, more.shape) == ((5, 2), (15, 2))
    np.testing.assert_array_equal(few, more[:5])
    assert not np.array_equal(more, mixed_embeddings(net, known, NORMALISATION, mixup=mixup, alpha=2, seed=2, count=15))


def test_images_of_one_class_give_no_mixture():
    known = Labelled(IMAGES, np.zeros(40, int))
    assert mixed_embeddings(net_2d(), known, NORMALISATION, mixup="manifold", alpha=2, seed=0, count=9).shape == (0, 2)


@torch.no_grad()
def test_manifold_mixtures_are_what_follows_from_mixed_hidden_representations() -> None:
    """Two images: each mixture has the drawn share of one of them."""
    images, count = random_images(2), MIXED_AT_ONCE // 2
    known, net = Labelled(np.repeat(images, count, axis=0), np.repeat([0, 1], count)), net_2d()
    made = mixed_embeddings(net, known, NORMALISATION, mixup="manifold", alpha=2, seed=5, count=MIXED_AT_ONCE)
    share = float(draw_mix(5, 0, 0, MIXED_AT_ONCE, 2).mix_lambda)
    (both,) = evaluation_batches(images, NORMALISATION, CPU)
    one, other = (net.hidden(both[number : number + 1]) for number in range(2))
    either = [net.backbone.post(share * a + (1 - share) * b).numpy()[0] for a, b in ((one, other), (other, one))]
    assert len(made) > 0
    assert np.abs(made[:, None] - np.stack(either)).max(axis=-1).min(axis=1).max() < 1e-5
    assert 0.05 < share < 0.95


def test_vanilla_mixtures_are_embeddings_of_mixed_images():
    """Two images, black and white: each mixture is a grey one."""
    images = np.zeros((MIXED_AT_ONCE, 8, 8, 3), np.uint8)
    images[::2] = 255
    known, net = Labelled(images, np.arange(MIXED_AT_ONCE) % 2), net_2d()
    made = mixed_embeddings(net, known, NORMALISATION, mixup="vanilla", alpha=2, seed=0, count=MIXED_AT_ONCE)
    greys = np.arange(256, dtype=np.uint8)[:, None, None, None] * np.ones((1, 8, 8, 3), np.uint8)
    every = compute_embedding_table(net, greys, NORMALISATION, CPU).embeddings
    apart = np.linalg.norm(made[:, None] - every[None], axis=-1).min(axis=1)
    assert len(made) > 0
    assert apart.max() < 2 * np.linalg.norm(np.diff(every, axis=0), axis=1).max()
    with torch.inference_mode():
        white = net.backbone(Normaliser(NORMALISATION, CPU)(torch.from_numpy(images[:1]))).numpy()
    assert np.abs(made - white).max() > 1e-3
