"""Protocols on digits that `proser reproduce` is asked for, the numbers of its reports, and results to report."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pipeline_runs import RunFolder, quick_recipe

from pipelines.recipes import cifar100_cpu
from pipelines.reports.page import Made
from pipelines.reproduction.own_network_outcomes import OwnNetworkOutcome
from pipelines.reproduction.protocols import PROTOCOLS, STUDIES, Column
from pipelines.reproduction.report import NUMBERS
from pipelines.reproduction.request import ReproduceRequest
from pipelines.reproduction.results import SplitResult
from proser_core.config import FinetuneConfig, to_json

DATA = replace(quick_recipe().data, development="none", unknown_settings=(2, 3))
AUROC = "test/unknown_3/auroc"
TRAINED = ("MSP", "MaxLogit", "OpenMax", "PROSER")
CIFAR10 = PROTOCOLS["cifar10"].columns[0]
RECIPES_OF = {name: [to_json(cifar100_cpu())] for name in STUDIES}
MADE = Made("proser reproduce cifar10 --data-dir 'my data'", {"schedule": "10 epochs", "hardware": "2 cores"})


def request(folder: RunFolder, *names: str, **options: Any) -> ReproduceRequest:
    asked = {"methods": TRAINED, "image_size": 8, "data_dir": None, "storage": folder.storage, **options}
    recipe = replace(quick_recipe(), finetune=FinetuneConfig(epochs=2))
    return ReproduceRequest(names, **{"recipe": recipe, **asked})


def report_of(text: str) -> Path:
    return next(Path(line.removeprefix("Report: ")) for line in text.splitlines() if line.startswith("Report: "))


def numbers(text: str) -> list[dict[str, str]]:
    """Rows of the report's table of every number."""
    with (report_of(text).parent / NUMBERS).open() as file:
        return list(csv.DictReader(file))


def results(method: str, *values: float, column: Column = CIFAR10, seconds: float = 60.0) -> list[SplitResult]:
    return [SplitResult(column.study, at, method, {column.metric: value}, seconds) for at, value in enumerate(values)]


def outcome(study: str, network: str, split_index: int, grey: int) -> OwnNetworkOutcome:
    """Of a network that drew one grey image."""
    pictures = {"reconstructions": np.full((1, 1, 8, 8, 3), grey, np.uint8)}
    return OwnNetworkOutcome(study, network, split_index, {"reconstruction_error": grey / 255}, pictures)
