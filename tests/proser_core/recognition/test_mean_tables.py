"""The mean of tables against loops over images, and against the network that it stands for."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_tasks import CPU, NORMALISATION, random_images, tiny_net

from proser_core.networks.ensembles import EnsembleNet
from proser_core.recognition.embedding_table import compute_embedding_table
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.mean_tables import mean_table, mean_tables


@given(st.integers(2, 5), st.integers(1, 6), st.integers(0, 2**32 - 1), st.booleans())
def test_it_is_what_a_textbook_would_compute(count: int, num_images: int, seed: int, has_dummies: bool) -> None:
    draw = np.random.default_rng(seed)
    tables = [
        LogitTable(
            draw.normal(size=(num_images, 4)).astype(np.float32),
            draw.normal(size=(num_images, int(draw.integers(1, 4)) if has_dummies else 0)).astype(np.float32),
        )
        for _ in range(count)
    ]
    found = mean_table(tables)
    assert found.dummies.shape == (num_images, 1 if has_dummies else 0)
    for image in range(num_images):
        for known in range(4):
            each = [float(table.known[image, known]) for table in tables]
            assert found.known[image, known] == pytest.approx(sum(each) / count, abs=1e-6)
        if has_dummies:
            best = [max(map(float, table.dummies[image])) for table in tables]
            assert found.dummies[image, 0] == pytest.approx(sum(best) / count, abs=1e-6)


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("standardised", [False, True])
def test_it_is_bit_for_bit_what_the_ensemble_gives(mirror: bool, standardised: bool) -> None:
    members, images = [tiny_net(num_dummies=1 + seed, seed=seed) for seed in range(3)], random_images(20)
    for seed, net in enumerate(members if standardised else []):
        size = net.backbone.embedding_size
        net.backbone.standardised_by = torch.full((size,), 0.5 + seed), torch.full((size,), 1.5 + seed)
    tables = [compute_embedding_table(net, images, NORMALISATION, CPU, mirror=mirror) for net in members]
    of_net = compute_embedding_table(EnsembleNet(members), images, NORMALISATION, CPU, mirror=mirror)
    for name, value in vars(mean_table(tables)).items():
        np.testing.assert_array_equal(value, np.broadcast_to(getattr(of_net, name), value.shape))


def test_a_part_that_one_of_them_lacks_is_left_out() -> None:
    table = LogitTable(np.zeros((2, 3), np.float32), np.zeros((2, 0), np.float32))
    assert list(mean_tables([{"train": table, "val": table}, {"val": table}])) == ["val"]
