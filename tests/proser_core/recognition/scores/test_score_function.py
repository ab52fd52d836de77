"""What every score does with a table: its parts are scored one after another, and any array is read."""

import numpy as np
import pytest
import torch
from small_tasks import CPU, NORMALISATION, random_images, tiny_net

from proser_core.recognition.embedding_table import compute_embedding_table
from proser_core.recognition.logit_tables import LogitTable, select
from proser_core.recognition.scores import FURTHER_SCORES, OF_OWN_NETWORKS, SCORES, ScoreFunction

OF_LOGITS = [
    kind for kind in (SCORES | FURTHER_SCORES | OF_OWN_NETWORKS).values() if kind.in_torch is not ScoreFunction.in_torch
]


@pytest.mark.parametrize("kind", OF_LOGITS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("count", [0, 1, 4096, 8193])
def test_a_large_table_is_scored_in_parts_bit_for_bit_as_at_once(kind, count, monkeypatch):
    generator, lengths, in_torch = np.random.default_rng(count), [], kind.in_torch
    known, dummies = (5 * generator.standard_normal((count, size), np.float32) for size in (7, 3))
    whole = in_torch(kind(), torch.tensor(known), torch.tensor(dummies)).numpy()

    def counted(self, known, dummies):
        lengths.append(len(known))
        return in_torch(self, known, dummies)

    monkeypatch.setattr(kind, "in_torch", counted)
    np.testing.assert_array_equal(kind()(LogitTable(known, dummies)), whole, strict=True)
    assert sum(lengths) == count
    assert max(lengths) <= 4096


@pytest.mark.parametrize("kind", (SCORES | FURTHER_SCORES).values(), ids=lambda kind: kind.name)
def test_a_table_that_is_read_from_its_end_is_fitted_to_and_scored(kind):
    table, targets = compute_embedding_table(tiny_net(), random_images(40), NORMALISATION, CPU), np.arange(40) % 3
    backwards = select(table, slice(None, None, -1))
    scores = kind.fit(backwards, targets[::-1])(backwards)
    np.testing.assert_allclose(scores[::-1], kind.fit(table, targets)(table), rtol=1e-5, atol=1e-5)
