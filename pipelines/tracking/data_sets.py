"""The images of a class split as MLflow data sets: names, digests and schemas; pixels stay where they are."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from mlflow.data.schema import TensorDatasetSchema
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Run
from mlflow.types import Schema, TensorSpec
from mlflow.utils.mlflow_tags import MLFLOW_DATASET_CONTEXT

from proser_core.config import Recipe
from proser_core.data.tasks import TASK_PARTS, TaskSummary
from proser_core.digests import digest_of
from proser_core.store.store import Artefact, Manifest

CONTEXTS = dict(zip(TASK_PARTS, ("training", "validation", "development unknowns", "test"), strict=True))
MEASURED_ON = {"calibration": "validation", "val": "validation", "dev": "development unknowns", "test": "test"}
"""The data set behind a metric, by the first part of its name; those of `dev` have the validation images too."""
DIGEST_DIGITS = 36  # MLflow takes no more


def data_sets(recipe: Recipe, task: Artefact) -> list[DatasetInput]:
    """A data set for each part of a task that has images. Its digest is made of the task's manifest, so that equal
    images have one digest."""
    summary, files = TaskSummary.read(task.path), Manifest.read(task.path).files
    return [
        DatasetInput(
            _data_set(f"{recipe.data.name} {context}", part, recipe.data.split_index, summary, files, task.path),
            [InputTag(MLFLOW_DATASET_CONTEXT, context)],
        )
        for part, context in CONTEXTS.items()
        if summary.counts[part]
    ]


def _data_set(
    name: str, part: str, split_index: int, summary: TaskSummary, files: dict[str, str], folder: Path
) -> Dataset:
    size, known = summary.image_size, summary.split.num_known
    images = TensorSpec(np.dtype("uint8"), (-1, size, size, 3), "images")
    targets = TensorSpec(np.dtype("int64"), (-1,), f"targets: 0 to {known - 1} known, {known} unknown")
    schema = TensorDatasetSchema(Schema([images]), Schema([targets]))
    groups = {"num_groups": summary.groups[part]} if part in summary.groups else {}
    own = {file: digest for file, digest in files.items() if file.startswith(f"{part}_")}
    return Dataset(
        name=name,
        digest=digest_of(own)[:DIGEST_DIGITS],
        source_type="local",
        source=json.dumps({"uri": str(folder)}),
        schema=json.dumps(schema.to_dict()),
        profile=json.dumps({"num_rows": summary.counts[part], "split_index": split_index, **groups}),
    )


def measured(metrics: dict[str, float], inputs: Sequence[DatasetInput], run: Run, model_id: str) -> list[Metric]:
    """Metrics of a model at step 0, each with the data set that it was measured on, where there is one.

    MLflow logs them to a run too, and of two values there shows the later one. The run keeps its own: what is measured
    otherwise, as by another score, is older than the run. At the start of the run stands what the two have in common.
    """
    found = {each.tags[0].value: each.dataset for each in inputs}
    own, started = run.data.metrics, run.info.start_time
    made = []
    for name, value in metrics.items():
        data = found.get(MEASURED_ON.get(name.partition("/")[0], ""))
        about = {} if data is None else {"dataset_name": data.name, "dataset_digest": data.digest}
        time_ms = started if own.get(name, value) == value else started - 1
        made.append(Metric(name, value, time_ms, 0, model_id=model_id, run_id=run.info.run_id, **about))
    return made
