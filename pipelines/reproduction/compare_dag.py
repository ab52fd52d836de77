"""The methods of the paper's tables on what was trained, as a node behind those of `workflow.training_dag`."""

from pathlib import Path

from pipelines.reproduction.comparing import compare
from pipelines.workflow.stage import stage
from pipelines.workflow.training import TrainedSplit
from proser_core.store.store import Artefact, BuildResult, Store


@stage("compare")
def compared(
    splits: list[TrainedSplit],
    methods: list[str],
    bf16: bool,
    swept: Artefact,
    store: Store,
    folder: Path,
) -> BuildResult:
    """Every method on every class split, calibrated and evaluated alike."""
    return compare(splits, methods, bf16, store, folder)
