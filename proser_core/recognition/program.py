"""A classifier as one exported program (.pt2), for use where this code is not installed.

import json, torch
extra = {"classes.json": ""}
program = torch.export.load("program.pt2", extra_files=extra).module()
indices, unknown_scores, probabilities = program(torch.from_numpy(images))   # uint8[N, size, size, 3]
names = json.loads(extra["classes.json"])                  # the last one is "unknown"

`onnx_program.py` writes the same program in ONNX.
"""

import copy
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from proser_core.errors import ConfigError, first_line
from proser_core.naming import UNKNOWN
from proser_core.networks.nets import ClassLogits
from proser_core.recognition.embedding_table import outputs
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.scores import EmbeddingScore
from proser_core.recognition.scoring import SMALLEST_MARGIN

PROGRAM, CLASSES, ABOUT = "program.pt2", "classes.json", "about.json"
Outputs = tuple[np.ndarray, np.ndarray, np.ndarray]
"""What a program gives: indices, unknown scores and probabilities, as `Decision.forward` gives them."""
Run = Callable[[np.ndarray], Outputs]
"""A program that was loaded: from uint8[N, size, size, 3] to its outputs."""


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
        best, margin = known.amax(1).double(), scores.double() + self.bias
        margin = torch.where(margin > 0, margin.maximum(SMALLEST_MARGIN * best.abs().clamp(min=1.0)), margin)
        probabilities = torch.cat([known.double(), (best + margin)[:, None]], 1).softmax(1)
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


def exported(classifier: OpenSetClassifier) -> ExportedProgram:
    """The classifier as a program that takes any number of images.

    Raises ConfigError for a score that has no form in torch, and for a network that torch cannot export.
    """
    check_exportable(classifier)
    size = classifier.image_size
    example = torch.zeros(2, size, size, 3, dtype=torch.uint8)
    decision = Decision(classifier).cpu().eval()
    try:
        return torch.export.export(decision, (example,), dynamic_shapes=({0: Dim("images", min=1)},), strict=False)
    except RuntimeError as error:  # torch's own kinds of it are private
        raise ConfigError(
            f"the network {classifier.architecture} cannot be exported ({first_line(error)}); use `proser serve`"
        ) from error


def check_exportable(classifier: OpenSetClassifier) -> None:
    """Raises ConfigError for a score that has no form in torch."""
    score = classifier.score_function
    if not score.is_exportable:
        raise ConfigError(
            f"the score {score.name} has no form in torch, which an exported program needs; choose another by "
            "--calibration.score of `proser run`"
        )


def about(classifier: OpenSetClassifier) -> dict[str, Any]:
    """What a file says of its program, in values for JSON. Normalisation and bias are in the program already."""
    mean, std = classifier.normalisation
    return {
        "classes": [*classifier.class_names, UNKNOWN],
        "image_size": classifier.image_size,
        "mean": mean,
        "std": std,
        "score": classifier.score_function.name,
        "bias": classifier.calibration.bias,
        "target_rate": classifier.calibration.target_rate,
    }


def export_program(classifier: OpenSetClassifier, path: Path) -> None:
    """Write the program with its class names and what else there is to say of it. Raises ConfigError as `exported`."""
    content = about(classifier)
    extra = {CLASSES: json.dumps(content["classes"]), ABOUT: json.dumps(content)}
    file = io.BytesIO()  # torch's own writer would end the process where the disk is full
    torch.export.save(exported(classifier), file, extra_files=extra)
    path.write_bytes(file.getvalue())


def load_program(path: Path) -> Run:
    """The program in a file."""
    program = torch.export.load(path).module()

    def run(images: np.ndarray) -> Outputs:
        indices, scores, probabilities = program(torch.from_numpy(images))
        return indices.numpy(), scores.numpy(), probabilities.numpy()

    return run
