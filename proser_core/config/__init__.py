"""The configuration of a run: a `Recipe`, with one frozen, keyword-only block per concern.

A field stands with its default, its unit and its source; its docstring is the help text of the command line, and its
check stands in `__post_init__`. `method notes` are docs/method-notes.md.
"""

from proser_core.config.calibration import CalibrationConfig
from proser_core.config.cluster import ClusterConfig
from proser_core.config.data import DataConfig
from proser_core.config.finetune import FinetuneConfig, MixupPlace
from proser_core.config.network import NetworkConfig, SplitPoint
from proser_core.config.optimizer import Flips, OptimizerConfig, PretrainConfig
from proser_core.config.recipe import Precision, Recipe, decisive_fields, decisive_network
from proser_core.digests import digest_of
from proser_core.serialization import from_json, to_json

__all__ = [
    "CalibrationConfig",
    "ClusterConfig",
    "DataConfig",
    "FinetuneConfig",
    "Flips",
    "MixupPlace",
    "NetworkConfig",
    "OptimizerConfig",
    "Precision",
    "PretrainConfig",
    "Recipe",
    "SplitPoint",
    "decisive_fields",
    "decisive_network",
    "digest_of",
    "from_json",
    "to_json",
]
