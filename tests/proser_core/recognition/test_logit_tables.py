"""Cached logits."""

import numpy as np
import pytest
from random_tables import table

from proser_core.recognition.logit_tables import SCORED_PARTS, TRAIN, load_logits, save_logits


@pytest.mark.parametrize("parts", [SCORED_PARTS, (TRAIN, *SCORED_PARTS)])
def test_cached_logits_come_back_bit_equal_with_those_of_training_images_where_there_are_any(tmp_path, parts):
    tables = {part: table(5 + i, seed=i) for i, part in enumerate(parts)}
    save_logits(tables, tmp_path / "logits.npz")
    loaded = load_logits(tmp_path / "logits.npz")
    assert tuple(loaded) == (*SCORED_PARTS, TRAIN)[: len(parts)]
    for part in parts:
        np.testing.assert_array_equal(loaded[part].known, tables[part].known)
        np.testing.assert_array_equal(loaded[part].dummies, tables[part].dummies)
