"""Logits of an ensemble from those of its members: no forward pass."""

from collections.abc import Sequence

import numpy as np

from proser_core.recognition.logit_tables import EmbeddingTable, LogitTable
from proser_core.recognition.score_choice import Tables


def mean_tables(members: Sequence[Tables]) -> dict[str, LogitTable]:
    """What an `EnsembleNet` of these networks gives, by part; parts that one of them lacks are left out."""
    parts = [part for part in members[0] if all(part in tables for tables in members)]
    return {part: mean_table([tables[part] for tables in members]) for part in parts}


def mean_table(members: Sequence[LogitTable]) -> LogitTable:
    """The mean of the known logits [N, K] and, of networks with dummies, of the best dummy logits [N, 1]; with
    embeddings, these side by side."""
    known = np.mean([table.known for table in members], axis=0)
    has_dummies = all(table.dummies.shape[1] for table in members)
    best = [table.dummies.max(axis=1, keepdims=True) if has_dummies else table.dummies[:, :0] for table in members]
    embedded = [table for table in members if isinstance(table, EmbeddingTable)]
    if len(embedded) < len(members):
        return LogitTable(known, np.mean(best, axis=0))
    weights = np.concatenate([table.weights for table in embedded], axis=1) / np.float32(len(embedded))
    seen = (
        np.concatenate([np.broadcast_to(getattr(table, name), table.embeddings.shape[1]) for table in embedded])
        for name in ("centre", "scale")
    )
    return EmbeddingTable(
        known,
        np.mean(best, axis=0),
        np.concatenate([table.embeddings for table in embedded], axis=1),
        weights,
        np.mean([table.biases for table in embedded], axis=0),
        *seen,
    )
