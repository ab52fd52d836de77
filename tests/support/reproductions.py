"""Protocols on digits that `proser reproduce` is asked for, and the numbers of its reports."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline_runs import RunFolder, tiny_recipe

from pipelines.reproduction.report import NUMBERS
from pipelines.reproduction.request import ReproduceRequest
from proser_core.config import FinetuneConfig

DATA = replace(tiny_recipe().data, development="none", unknown_settings=(2, 3))
CARRIED = ("MaxLogit", "PROSER")
AUROC = "test/unknown_3/auroc"
TRAINED = ("MSP", "MaxLogit", "OpenMax", "PROSER")


def request(folder: RunFolder, *names: str, **options: Any) -> ReproduceRequest:
    asked = {"methods": TRAINED, "image_size": 8, "data_dir": None, "storage": folder.storage, **options}
    recipe = replace(tiny_recipe(), finetune=FinetuneConfig(epochs=2))
    return ReproduceRequest(names, **{"recipe": recipe, **asked})


def report_of(text: str) -> Path:
    return next(Path(line.removeprefix("Report: ")) for line in text.splitlines() if line.startswith("Report: "))


def numbers(text: str) -> list[dict[str, str]]:
    """Rows of the report's table of every number."""
    with (report_of(text).parent / NUMBERS).open() as file:
        return list(csv.DictReader(file))
