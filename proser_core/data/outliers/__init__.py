"""Outlier sets: test images of no class at all."""
