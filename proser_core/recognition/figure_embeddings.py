"""For figures: embeddings of mixtures, and logits of embeddings that no image need have.

Computed in fp32, in evaluation mode, where the network lies.
"""

import numpy as np
import torch

from proser_core.config import MixupPlace
from proser_core.data.normalisation import Normalisation, Normaliser
from proser_core.data.tasks import Labelled
from proser_core.learning.mixup import draw_mix, mix, pair_weights
from proser_core.networks.nets import ClosedSetNet, PlaceholderNet
from proser_core.processor import ieee_convolutions
from proser_core.recognition.logit_tables import LogitTable
from proser_core.rng import keyed_generator

MIXED_AT_ONCE = 16
"""Images that share one mixing ratio. Fewer than in a training batch, so that few images show many ratios."""


@torch.inference_mode()
def head_logits(net: ClosedSetNet | PlaceholderNet, embeddings: np.ndarray) -> LogitTable:
    """`W^T e` and `W_hat^T e` of embeddings float[N, d]: N points of the plane, say. No dummies of a closed-set net."""
    points = torch.from_numpy(embeddings.astype(np.float32)).to(net.classifier.weight.device)
    known = net.classifier(points).float().cpu()
    dummies = net.dummies(points).float().cpu() if isinstance(net, PlaceholderNet) else known[:, :0]
    return LogitTable(known.numpy(), dummies.numpy())


@torch.inference_mode()
def mixed_embeddings(
    net: PlaceholderNet, known: Labelled, normalisation: Normalisation, *, mixup: MixupPlace, alpha: float, seed: int,
    count: int,
) -> np.ndarray:  # fmt: skip
    """phi of data placeholders (eq. 6), float32[n, d] with n at most `count`: one for each pair of two classes.

    Images, partners and ratios are drawn by `seed`. manifold mixes hidden representations, vanilla images.
    """
    assert isinstance(known.images, np.ndarray)
    net.eval()
    device = net.classifier.weight.device
    normalise = Normaliser(normalisation, device)
    rows = keyed_generator(seed, "mixed embeddings").permutation(len(known))
    targets = torch.from_numpy(np.array(known.targets))
    parts: list[torch.Tensor] = []
    for step in range(len(rows) // MIXED_AT_ONCE):
        if sum(map(len, parts)) >= count:
            break
        mine = np.sort(rows[step * MIXED_AT_ONCE : (step + 1) * MIXED_AT_ONCE])
        draw = draw_mix(seed, 0, step, MIXED_AT_ONCE, alpha)
        images = normalise(torch.from_numpy(known.images[mine]).to(device))
        with ieee_convolutions(device):
            mixed = mix(images, draw) if mixup == "vanilla" else mix(net.hidden(images), draw)
            embeddings = net.backbone(mixed) if mixup == "vanilla" else net.backbone.post(mixed)
        parts.append(embeddings[pair_weights(targets[mine], draw.partners) > 0].float().cpu())
    if not parts:  # fewer images than are mixed at once
        return np.zeros((0, net.backbone.embedding_size), np.float32)
    return torch.cat(parts)[:count].numpy()
