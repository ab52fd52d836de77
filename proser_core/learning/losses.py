"""The losses of the paper, on logits. Nothing here draws random numbers."""

import torch
import torch.nn.functional as F
from torch import Tensor

from proser_core.networks.nets import ClassLogits


def augmented_logits(logits: ClassLogits) -> Tensor:
    """`[W^T phi(x), max_c w_hat_c^T phi(x)]`, float32[B, K+1] (eq. 4 with C dummies)."""
    known, dummies = logits.known.float(), logits.dummies.float()
    return torch.cat([known, dummies.amax(dim=1, keepdim=True)], dim=1)


def all_logits(logits: ClassLogits) -> Tensor:
    """`[W^T phi(x), w_hat_1^T phi(x), ..., w_hat_C^T phi(x)]`, float32[B, K+C]: what the released code has there."""
    return torch.cat([logits.known.float(), logits.dummies.float()], dim=1)


def closed_set_losses(augmented: Tensor, targets: Tensor) -> Tensor:
    """First term of eq. 5, for each image: `CE(f_hat(x), y)`, float32[B]."""
    return F.cross_entropy(augmented, targets, reduction="none")


def placeholder_losses(augmented: Tensor, targets: Tensor) -> Tensor:
    """Second term of eq. 5, for each image: `CE(f_hat(x) \\ y, K)`, float32[B].

    Removing y means probability 0, that is logit -inf; a logit of 0 would keep e^0 in the sum.
    """
    without_true = augmented.scatter(1, targets[:, None], -torch.inf)
    return unknown_losses(without_true)


def unknown_losses(augmented: Tensor, unknown: int = -1) -> Tensor:
    """`CE(f_hat(x), K)` for each image: the loss of a data placeholder (eq. 7), float32[B].

    `unknown` is the column of class K: the last, except in `all_logits`.
    """
    return torch.logsumexp(augmented, dim=1) - augmented[:, unknown]
