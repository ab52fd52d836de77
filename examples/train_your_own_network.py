"""Train placeholders on a network of your own, by your own loop: any module from images to embeddings will do.

python examples/train_your_own_network.py
"""

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

from proser_core import (
    SCORES,
    Arithmetic,
    DataConfig,
    FinetuneConfig,
    ProserObjective,
    TrainingBatches,
    add_placeholders,
    auroc,
    calibrate,
    closed_set_net_on,
    compute_logits,
    fit,
    open_set_macro_f1,
    score,
    task_from_arrays,
)

NUM_KNOWN, EPOCHS = 6, 8
digits = load_digits()
images = (digits.images * 255 / 16).astype(np.uint8)
is_test = np.arange(len(images)) % 3 == 0
is_training = ~is_test & (digits.target < NUM_KNOWN)
task = task_from_arrays(
    images[is_training], digits.target[is_training], test_images=images[is_test], test_labels=digits.target[is_test]
)
your_network = nn.Sequential(  # [B, 3, 8, 8] to embeddings [B, 64]
    nn.Sequential(nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
    nn.Sequential(nn.Conv2d(32, 64, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU()),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
)

net = add_placeholders(closed_set_net_on(your_network, NUM_KNOWN, image_size=8, seed=0), num_dummies=5, seed=0)
config = FinetuneConfig(epochs=EPOCHS, batch_size=32, lr=0.05, schedule="one_cycle", batch_use="all", gamma=0.0)
device, normalisation = torch.device("cpu"), (task.mean, task.std)
data = DataConfig(name="digits", image_size=8, num_known=NUM_KNOWN, flip=False, padding=1)
batches = TrainingBatches(
    task.train, data, normalisation, batch_size=config.batch_size, seed=0, purpose="finetune", device=device
)


def report(epoch: int, metrics: dict[str, float], state: dict) -> None:
    """After each epoch; `state` is what `fit` goes on from, as `resume`."""
    print(f"epoch {epoch + 1}/{EPOCHS}: loss {metrics['loss/closed_set']:.3f}", file=sys.stderr)


fit(ProserObjective(net, config, seed=0), batches, config, Arithmetic(device, bf16=False), seed=0, report=report)

val, test = (compute_logits(net, part.images, normalisation, device) for part in (task.val, task.test))
targets = np.asarray(task.test.targets)
is_known = targets < NUM_KNOWN
print("score         AUROC  macro-F1, four unknown classes")
for name in ("MaxLogit", "gap", "p(unknown)"):
    function = SCORES[name]()
    found = score(test, function, calibrate(function(val)))
    area = auroc(found.scores[is_known], found.scores[~is_known])
    print(f"{name:12s}  {area:.3f}  {open_set_macro_f1(found.predictions, targets, NUM_KNOWN):.3f}")
