"""Images on disk to an open-set task to augmented batches."""
