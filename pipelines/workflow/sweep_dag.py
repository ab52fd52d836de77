"""What a sweep does with its trials: tables and figures over points and class splits. Behind `training_dag`."""

from pathlib import Path
from typing import Any

from pipelines.workflow.session import TrainingSession
from pipelines.workflow.stage import stage
from pipelines.workflow.stages.report import report_sweep
from pipelines.workflow.training import TrainedSplit
from proser_core.config import FinetuneConfig
from proser_core.jobs.spec import TRIALS
from proser_core.store.store import Artefact, Store
from tune_spaces import SpaceInfo, space_info


def space_infos(spaces: dict[str, list[FinetuneConfig]]) -> dict[str, SpaceInfo]:
    """What each search space says of itself."""
    return {name: space_info(name) for name in spaces}


@stage("sweep_report")
def reported(
    splits: list[TrainedSplit],
    trials: list[dict[str, Any]],
    space_infos: dict[str, SpaceInfo],
    store: Store,
    folder: Path,
) -> None:
    """Tables and figures over all splits."""
    report_sweep(splits, trials, list(space_infos), store.root / TRIALS, folder)


def logged(reported: Artefact, session: TrainingSession) -> Artefact:
    """The report, in tracking too."""
    session.tracking.track(lambda: session.run.report(reported))
    return reported
