"""Mixup, losses, the objectives that DDP wraps, and the training loop."""
