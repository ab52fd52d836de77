"""A place to run whole pipelines in: a storage, a SQLite tracking database and a temporary space folder."""

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Run
from rich.console import Console
from training_jobs import tiny_recipe

from pipelines.commands.run import run_recipe
from pipelines.workflow.requests import RunRequest
from pipelines.workflow.session import Session, TrainingSession
from proser_core.config import Recipe


def quick_recipe() -> Recipe:
    """The tiny recipe with most images for validation: a run or a sweep trains many networks on the others."""
    tiny = tiny_recipe()
    return replace(tiny, data=replace(tiny.data, val_fraction=0.7))


def printed(command: Callable[..., int], *arguments: Any, width: int = 200) -> tuple[int, str]:
    """Exit code of a command that is called with a console as its last argument, and what it prints."""
    out = io.StringIO()
    code = command(*arguments, Console(file=out, width=width))
    return code, out.getvalue()


def write_space(folder: Path, name: str, finetune: str) -> None:
    """A search space over fields of the fine-tune, in Tune's words."""
    code = f'def param_space():\n    return {{"finetune": {finetune}}}\n'
    (folder / f"{name}.py").write_text(f'"""A space of a test."""\n\nfrom ray import tune\n\n\n{code}')


Proser = Callable[..., tuple[int, str, str]]
"""The fixture `proser`: from arguments to exit code, standard output and standard error."""


def finished_row(key: str) -> dict[str, Any]:
    """A finished trial, as tracking takes it."""
    return {"key": key, "name": key, "params": {"beta": 1}, "status": "finished", "metrics": {"dev/f1": 0.5}}


@dataclass(frozen=True)
class Outcome:
    """What one run gave: exit code, session, printed text, and the registry's aliases right after it."""

    code: int
    session: TrainingSession
    text: str
    aliases: dict[str, str]
    versions: int

    @property
    def ran(self) -> set[str]:
        return set(self.session.store.ran)

    @property
    def failures(self) -> list[str]:
        return [line.removeprefix("failed: ") for line in self.text.splitlines() if line.startswith("failed: ")]

    @property
    def parent_id(self) -> str:
        return self.session.run.run_id


@dataclass(frozen=True)
class RunFolder:
    """Folders and tracking shared by several runs."""

    root: Path

    @property
    def client(self) -> mlflow.MlflowClient:
        return mlflow.MlflowClient(f"sqlite:///{self.root / 'mlflow.db'}")

    @property
    def storage(self) -> Path:
        return self.root / "storage"

    def run(self, recipe: Recipe) -> Outcome:
        """One whole run in this process."""
        sessions: list[TrainingSession] = []
        follow = Session.follow

        def spy(*arguments: Any, **named: Any) -> TrainingSession:
            sessions.append(follow(*arguments, **named))
            return sessions[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Session, "follow", spy)
            code, text = printed(run_recipe, RunRequest(recipe, storage=self.storage))
        model = self.client.get_registered_model(recipe.model_name)
        versions = self.client.search_model_versions(f"name = '{recipe.model_name}'")
        aliases = {alias: str(number) for alias, number in model.aliases.items()}
        return Outcome(code, sessions[0], text, aliases, len(versions))

    def parents(self) -> list[Run]:
        return [run for run in self._runs() if "mlflow.parentRunId" not in run.data.tags]

    def children(self, parent_id: str) -> list[Run]:
        return [run for run in self._runs() if run.data.tags.get("mlflow.parentRunId") == parent_id]

    def _runs(self) -> list[Run]:
        experiments = [experiment.experiment_id for experiment in self.client.search_experiments()]
        return list(self.client.search_runs(experiments, max_results=1000))

    def files(self, parent_id: str, folder: str = "") -> set[str]:
        """Paths of a run's artefacts."""
        found: set[str] = set()
        for item in self.client.list_artifacts(parent_id, folder):
            found |= self.files(parent_id, item.path) if item.is_dir else {item.path}
        return found
