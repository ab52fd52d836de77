"""A classifier as one exported program (.pt2), for use where this code is not installed.

import json, torch
extra = {"classes.json": ""}
program = torch.export.load("program.pt2", extra_files=extra).module()
indices, unknown_scores, probabilities = program(images)   # uint8[N, size, size, 3]
names = json.loads(extra["classes.json"])                  # the last one is "unknown"
"""

import copy
import json
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim

from proser_core.errors import ConfigError
from proser_core.naming import UNKNOWN
from proser_core.networks.nets import ClassLogits
from proser_core.recognition.embedding_table import outputs
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scores import EmbeddingScore

PROGRAM, CLASSES = "program.pt2", "classes.json"


class Decision(nn.Module):
    """Images to decisions in one forward: normalisation, network, score and bias are inside."""

    mean: Tensor
    std: Tensor

    def __init__(self, classifier: OpenSetClassifier) -> None:
        super().__init__()
        self.net = copy.deepcopy(classifier.net).requires_grad_(False)  # callers need no torch.no_grad
        self.score_function, self.bias = classifier.score_function, classifier.calibration.bias
        self.reads_embeddings, self.mirror = classifier.reads_embeddings, classifier.mirror
        mean, std = (torch.tensor(values).reshape(1, 3, 1, 1) for values in classifier.normalisation)
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """uint8[N, H, W, 3] -> indices int64[N] in 0..K (K unknown), unknown scores float[N] (above 0
        for unknown), probabilities float64[N, K+1].
        """
        pixels = images.permute(0, 3, 1, 2).float() / 255
        known, scores = self._scores((pixels - self.mean) / self.std)
        unknown = known.amax(1).double() + (scores.double() + self.bias)
        probabilities = torch.cat([known.double(), unknown[:, None]], 1).softmax(1)
        indices = torch.where(scores <= -self.bias, known.argmax(1), known.shape[1])
        return indices, scores + self.bias, probabilities

    def _scores(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the known classes [N, K], and scores [N]."""
        if self.reads_embeddings:
            known, dummies, embeddings = outputs(self.net, images, mirror=self.mirror)
        else:
            logits = self.net(images)
            known, dummies = logits if isinstance(logits, ClassLogits) else (logits, logits[:, :0])
        if isinstance(self.score_function, EmbeddingScore):
            return known, self.score_function.of_embeddings(known, embeddings)
        return known, self.score_function.in_torch(known, dummies)


def export_program(classifier: OpenSetClassifier, path: Path) -> None:
    """Write the classifier as a program that takes any number of images.

    Raises ConfigError for a score that has no form in torch.
    """
    score = classifier.score_function
    if not score.is_exportable:
        raise ConfigError(f"the score {score.name} has no form in torch, which an exported program needs")
    size = classifier.image_size
    example = torch.zeros(2, size, size, 3, dtype=torch.uint8)
    decision = Decision(classifier).cpu().eval()
    exported = torch.export.export(decision, (example,), dynamic_shapes=({0: Dim("images", min=1)},), strict=False)
    names = [*classifier.class_names, UNKNOWN]
    torch.export.save(exported, path, extra_files={CLASSES: json.dumps(names)})
