"""PROSER: learning placeholders for open-set recognition (CVPR 2021), as a library.

The packages import downward only: data and networks, then learning, recognition, baselines, jobs. Nothing in here knows
of Ray, MLflow or Hamilton. The public names are imported on first use, so that reading a recipe does not load torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proser_core.baselines.method import Method
    from proser_core.baselines.methods import METHODS
    from proser_core.config import (
        CalibrationConfig,
        ClusterConfig,
        DataConfig,
        FinetuneConfig,
        NetworkConfig,
        PretrainConfig,
        Recipe,
    )
    from proser_core.data.arrays import task_from_arrays
    from proser_core.data.augmentation.batches import TrainingBatches
    from proser_core.data.preparation import make_task
    from proser_core.data.splits.class_split import ClassSplit
    from proser_core.data.tasks import Labelled, OpenSetTask
    from proser_core.errors import ProserError
    from proser_core.jobs.in_memory import train
    from proser_core.jobs.progress import EpochProgress
    from proser_core.learning.fit import fit
    from proser_core.learning.objectives import CrossEntropyObjective, ProserObjective
    from proser_core.learning.step import Arithmetic
    from proser_core.networks.nets import ClosedSetNet, PlaceholderNet, add_placeholders, make_closed_set_net
    from proser_core.recognition.calibration import Calibration, calibrate
    from proser_core.recognition.evaluation import EvaluationReport, evaluate
    from proser_core.recognition.logits import LogitTable, compute_logits
    from proser_core.recognition.metrics import auroc, open_set_macro_f1
    from proser_core.recognition.open_set_classifier import OpenSetClassifier, Predictions
    from proser_core.recognition.scores import SCORES, ScoreFunction
    from proser_core.recognition.scoring import OpenSetScores, score

__all__ = [
    "METHODS",
    "SCORES",
    "Arithmetic",
    "Calibration",
    "CalibrationConfig",
    "ClassSplit",
    "ClosedSetNet",
    "ClusterConfig",
    "CrossEntropyObjective",
    "DataConfig",
    "EpochProgress",
    "EvaluationReport",
    "FinetuneConfig",
    "Labelled",
    "LogitTable",
    "Method",
    "NetworkConfig",
    "OpenSetClassifier",
    "OpenSetScores",
    "OpenSetTask",
    "PlaceholderNet",
    "Predictions",
    "PretrainConfig",
    "ProserError",
    "ProserObjective",
    "Recipe",
    "ScoreFunction",
    "TrainingBatches",
    "add_placeholders",
    "auroc",
    "calibrate",
    "compute_logits",
    "evaluate",
    "fit",
    "make_closed_set_net",
    "make_task",
    "open_set_macro_f1",
    "score",
    "task_from_arrays",
    "train",
]
_HOMES = {
    "baselines.method": "Method",
    "baselines.methods": "METHODS",
    "config": "CalibrationConfig ClusterConfig DataConfig FinetuneConfig NetworkConfig PretrainConfig Recipe",
    "data.arrays": "task_from_arrays",
    "data.augmentation.batches": "TrainingBatches",
    "data.preparation": "make_task",
    "data.splits.class_split": "ClassSplit",
    "data.tasks": "Labelled OpenSetTask",
    "errors": "ProserError",
    "jobs.in_memory": "train",
    "jobs.progress": "EpochProgress",
    "learning.fit": "fit",
    "learning.objectives": "CrossEntropyObjective ProserObjective",
    "learning.step": "Arithmetic",
    "networks.nets": "ClosedSetNet PlaceholderNet add_placeholders make_closed_set_net",
    "recognition.calibration": "Calibration calibrate",
    "recognition.evaluation": "EvaluationReport evaluate",
    "recognition.logits": "LogitTable compute_logits",
    "recognition.metrics": "auroc open_set_macro_f1",
    "recognition.open_set_classifier": "OpenSetClassifier Predictions",
    "recognition.scores": "SCORES ScoreFunction",
    "recognition.scoring": "OpenSetScores score",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    for module, names in _HOMES.items():
        if name in names.split():
            return getattr(import_module(f"proser_core.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
