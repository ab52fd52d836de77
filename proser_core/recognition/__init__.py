"""From logits to a calibrated open-set classifier and its metrics: array arithmetic only."""
