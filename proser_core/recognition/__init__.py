"""From logits and embeddings to scores, a calibrated open-set classifier, its metrics, and the files that hold it."""
