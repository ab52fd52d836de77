"""Mixup, losses, the objectives that DDP wraps, optimizers, and the training loop; also the tails of OpenMax."""
