"""Batches of training images: order, crops, flips, RandAugment."""
