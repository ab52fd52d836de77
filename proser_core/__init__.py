"""PROSER: learning placeholders for open-set recognition (CVPR 2021), as a library.

The packages import downward only: data and networks, then learning, generative, recognition, baselines, jobs. Nothing
in here knows of Ray, MLflow or Hamilton. The public names are imported on first use, so that reading a recipe does not
load torch.
"""

import ast
from functools import cache
from importlib import import_module
from pathlib import Path
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
    from proser_core.networks.nets import (
        ClosedSetNet,
        PlaceholderNet,
        add_placeholders,
        closed_set_net_on,
        make_closed_set_net,
    )
    from proser_core.recognition.calibration import Calibration, calibrate
    from proser_core.recognition.embedding_table import compute_embedding_table
    from proser_core.recognition.evaluation import EvaluationReport, evaluate
    from proser_core.recognition.logit_tables import EmbeddingTable, LogitTable
    from proser_core.recognition.logits import compute_logits
    from proser_core.recognition.metrics import auroc, open_set_macro_f1
    from proser_core.recognition.open_set_classifier import OpenSetClassifier, Predictions
    from proser_core.recognition.scores import FURTHER_SCORES, SCORES, ScoreFunction
    from proser_core.recognition.scoring import OpenSetScores, score

__all__ = [
    "FURTHER_SCORES",
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
    "EmbeddingTable",
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
    "closed_set_net_on",
    "compute_embedding_table",
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


@cache
def _modules() -> dict[str, str]:
    """Module of each public name, from the imports above."""
    imports = [
        node
        for node in ast.walk(ast.parse(Path(__file__).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
    ]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:  # a checker would take any name for one that is here

    def __getattr__(name: str) -> Any:
        """Import a public name on first use."""
        if name in __all__:
            return getattr(import_module(_modules()[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
