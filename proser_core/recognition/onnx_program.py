"""The exported program in ONNX, for ONNX Runtime and what else reads it.

import json, onnxruntime
session = onnxruntime.InferenceSession("program.onnx")
indices, unknown_scores, probabilities = session.run(None, {"images": images})   # uint8[N, size, size, 3]
names = json.loads(session.get_modelmeta().custom_metadata_map["classes"])       # the last one is "unknown"
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.onnx import OnnxExporterError

from proser_core.errors import ConfigError, first_line
from proser_core.recognition.open_set_classifier import OpenSetClassifier
from proser_core.recognition.program import Outputs, Run, about, exported

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
INPUT, OUTPUTS = "images", ("indices", "unknown_scores", "probabilities")


def check_packages() -> None:
    """Raises ConfigError where a package is missing that writes the file, or reads it for the check."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigError(f"ONNX needs {', '.join(missing)}: pip install {' '.join(missing)}, or export to pt2")


def export_onnx(classifier: OpenSetClassifier, path: Path) -> None:
    """Write the program with what `about` says of it as metadata, each value in JSON.

    Raises ConfigError for a score that has no form in torch, and for a network that ONNX cannot express.
    """
    program = exported(classifier)
    try:
        converted = torch.onnx.export(
            program,
            input_names=[INPUT],
            output_names=OUTPUTS,
            dynamic_shapes=({0: "batch"},),
            dynamo=True,
            external_data=False,
            verbose=False,
            custom_translation_table={torch.ops.aten._cdist_forward.default: _cdist},
        )
    except OnnxExporterError as error:
        reason = first_line(error.__cause__ or error)
        raise ConfigError(
            f"the score {classifier.score_function.name} of this network has no form in ONNX ({reason}); export to pt2"
        ) from error
    assert converted is not None
    converted.model.metadata_props.update({name: json.dumps(value) for name, value in about(classifier).items()})
    converted.save(path, external_data=False)


def _cdist(points: Any, centres: Any, p: float, compute_mode: int | None = None) -> Any:
    """Euclidean distances [N, K] of points [N, d] to centres [K, d], which torch's exporter has no ONNX for."""
    from onnxscript import opset18

    differences = opset18.Sub(opset18.Unsqueeze(points, [1]), centres)
    return opset18.Sqrt(opset18.ReduceSum(opset18.Mul(differences, differences), [2], keepdims=0))


def load_onnx(path: Path) -> Run:
    """The program in a file, by ONNX Runtime on the CPU."""
    import onnxruntime  # an extra

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(images: np.ndarray) -> Outputs:
        indices, scores, probabilities = session.run(list(OUTPUTS), {INPUT: images})
        return indices, scores, probabilities

    return run
