"""Which version holds an alias, and why: every decision is an MLflow run, and an alias moves in one place alone."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.tracking.limits import LONGEST_TAG, fitting, shortened
from pipelines.tracking.runs import NOTE
from pipelines.tracking.server import experiment_id
from proser_core.errors import TrackingError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from mlflow import MlflowClient

KIND, MODEL, ALIAS, VERSION, BEFORE = (f"proser.decision{part}" for part in ("", ".model", ".alias", ".to", ".from"))
PROMOTED, FORCED, REFUSED, ROLLED_BACK = "promoted", "promoted by force", "refused", "rolled back"
NOTE_FILE = "decision.md"


@dataclass(frozen=True)
class Decision:
    """`alias` of `model` goes from version `before` (empty: none) to `version`; or not, where it is refused."""

    kind: str
    model: str
    alias: str
    version: str
    before: str

    @property
    def title(self) -> str:
        """For the list of runs."""
        over = f" over version {self.before}" if self.before else ""
        return f"{self.kind}: {self.model} version {self.version} as {self.alias}{over}"


def holder(client: "MlflowClient", model: str, alias: str) -> str:
    """The version that has the alias, empty where none has."""
    return str(client.get_registered_model(model).aliases.get(alias, ""))


def record(
    client: "MlflowClient", decision: Decision, metrics: Mapping[str, float], note: str, figure: "Figure | None" = None
) -> str:
    """An MLflow run that says what was decided and on what grounds; the run's id.

    It is written before the alias moves: a decision that a crash left without effect is harmless, the alias shows it.
    """
    tags = {
        KIND: decision.kind,
        MODEL: decision.model,
        ALIAS: decision.alias,
        VERSION: decision.version,
        BEFORE: decision.before,
        NOTE: fitting(note, LONGEST_TAG, NOTE_FILE),
    }
    run_id = str(client.create_run(experiment_id(client), run_name=shortened(decision.title), tags=tags).info.run_id)
    for name, value in metrics.items():
        client.log_metric(run_id, name, value)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / NOTE_FILE).write_text(note)
        if figure is not None:
            figure.savefig(Path(folder) / "comparison.png", dpi=150)
        client.log_artifacts(run_id, folder)
    client.set_terminated(run_id)
    return run_id


def move(client: "MlflowClient", decision: Decision) -> None:
    """Give the alias to the version. Raises TrackingError where it is not where the decision found it."""
    now = holder(client, decision.model, decision.alias)
    if now != decision.before:
        raise TrackingError(
            f"{decision.alias} of {decision.model!r} went from version {decision.before or 'none'} to "
            f"{now or 'none'} while this was decided; give the command again to compare with that one"
        )
    client.set_registered_model_alias(decision.model, decision.alias, decision.version)


def came_from(client: "MlflowClient", model: str, alias: str, version: str) -> str:
    """The version that had the alias before it last went to `version`; empty where no decision says so."""
    wanted = {MODEL: model, ALIAS: alias, VERSION: version}
    query = " and ".join(f"tags.`{name}` = '{value}'" for name, value in wanted.items())
    for run in client.search_runs([experiment_id(client)], query, order_by=["start_time DESC"], max_results=100):
        if run.data.tags[KIND] != REFUSED:
            return run.data.tags[BEFORE]
    return ""
