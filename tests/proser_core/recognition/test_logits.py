"""Logits of images by a network."""

import numpy as np
import pytest
import torch
from small_tasks import CPU, NORMALISATION, random_images, tiny_closed_set_net, tiny_net
from torch import nn

from proser_core.errors import DataError
from proser_core.recognition.embedding_table import compute_embedding_table
from proser_core.recognition.logits import compute_logits


def test_logits_are_those_of_the_net_in_evaluation_mode_in_the_order_of_the_images():
    net = tiny_net(dropout=0.5).train()
    images = random_images(70)
    logits = compute_logits(net, images, NORMALISATION, CPU)
    assert (logits.known.dtype, logits.known.shape, logits.dummies.shape) == (np.float32, (70, 3), (70, 2))
    alone = compute_logits(tiny_net(dropout=0.5), images[66:67], NORMALISATION, CPU)
    np.testing.assert_allclose(logits.known[66:67], alone.known, atol=1e-5)
    np.testing.assert_allclose(logits.dummies[66:67], alone.dummies, atol=1e-5)


@pytest.mark.parametrize("compute", [compute_logits, compute_embedding_table])
def test_a_device_may_be_named_and_what_are_no_pixels_is_refused(compute):
    net, images = tiny_net(), random_images(4)
    np.testing.assert_array_equal(
        compute(net, images, NORMALISATION, "cpu").known, compute(net, images, NORMALISATION, CPU).known
    )
    for wrong in (images / 255, images[0], images[..., 0], images[0, ..., 0], images[..., :1]):
        with pytest.raises(DataError, match=r"images are .*; need uint8\[N, height, width, 3\]"):
            compute(net, wrong, NORMALISATION, CPU)


class Weighted(nn.Module):
    """Its buffer takes another memory layout to be scored, as all do that go to a GPU."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weights", torch.ones(1, 3, 2, 2))

    def forward(self, images):
        return images.mean(dim=(2, 3)) * self.weights.mean()


def test_a_net_that_was_moved_to_be_scored_can_be_loaded_into():
    net, images = Weighted(), random_images(5)
    before = compute_logits(net, images, NORMALISATION, CPU).known
    net.load_state_dict({"weights": torch.full((1, 3, 2, 2), 2.0)})
    np.testing.assert_array_equal(compute_logits(net, images, NORMALISATION, CPU).known, 2 * before)


def test_a_closed_set_net_has_no_dummy_logits():
    logits = compute_logits(tiny_closed_set_net(4), random_images(5), NORMALISATION, CPU)
    assert (logits.known.shape, logits.dummies.shape, len(logits)) == ((5, 4), (5, 0), 5)
