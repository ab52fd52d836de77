"""What every run and sweep trains, as a Hamilton DAG: each public function is a node, its arguments are its inputs.

A node serves all class splits, so that their trainings share the cluster. A run is a sweep of one class split; what
comes after the trials is in `run_dag`, `sweep_dag` and the DAGs of `reproduction`.
"""

from pathlib import Path
from typing import Any

from pipelines.workflow.session import TrainingSession
from pipelines.workflow.stage import stage
from pipelines.workflow.stages.finetune import sweep, track_rows
from pipelines.workflow.stages.pretrain import pretrain
from pipelines.workflow.stages.trial_rows import read_rows
from pipelines.workflow.training import Search, TrainedSplit
from proser_core.config import FinetuneConfig, Recipe
from proser_core.jobs.preparing import check_batches, prepare_task
from proser_core.store.store import Artefact, BuildResult, Store


def prepared(
    recipes: list[Recipe],
    data_inputs: list[dict[str, Any]],
    data_dir: Path | None,
    finetunes: list[FinetuneConfig],
    store: Store,
) -> list[Artefact]:
    """Images by role: train, val, development, test."""
    tasks = []
    for recipe, inputs in zip(recipes, data_inputs, strict=True):
        tasks.append(prepare_task(recipe, inputs, data_dir, store))
        check_batches(recipe, finetunes, tasks[-1].path)
    return tasks


def pretrained(
    recipes: list[Recipe],
    prepared: list[Artefact],
    bf16: bool,
    pretrained_file: Path | None,
    session: TrainingSession,
) -> list[Artefact]:
    """Closed-set weights, and their logits on every image."""
    return pretrain(recipes, prepared, bf16, pretrained_file, session)


def splits(recipes: list[Recipe], prepared: list[Artefact], pretrained: list[Artefact]) -> list[TrainedSplit]:
    """What fine-tunes start from."""
    return [TrainedSplit(*parts) for parts in zip(recipes, prepared, pretrained, strict=True)]


@stage("sweep")
def swept(
    splits: list[TrainedSplit],
    finetunes: list[FinetuneConfig],
    spaces: dict[str, list[FinetuneConfig]],
    bf16: bool,
    search: Search,
    session: TrainingSession,
    folder: Path,
) -> BuildResult:
    """Every fine-tune on every class split, trained and evaluated."""
    return sweep(splits, finetunes, spaces, bf16, search, session, folder)


def trials(swept: Artefact, session: TrainingSession) -> list[dict[str, Any]]:
    """A row per trial, in tracking too."""
    rows = read_rows(swept)
    track_rows(rows, session)
    return rows
