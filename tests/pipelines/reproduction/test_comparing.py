"""Stage compare on small trainings of digits, without Ray: methods with networks of their own beside the others."""

from dataclasses import replace
from pathlib import Path

import pytest
from own_networks import NEAREST
from pipeline_runs import ignore

from pipelines.reproduction.comparing import compare, read_compared
from pipelines.workflow.training import TrainedSplit
from proser_core.baselines import METHODS
from proser_core.config import Recipe
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import TrainingError
from proser_core.jobs.worker import run_job
from proser_core.store.files import read_json
from proser_core.store.store import MANIFEST, Artefact, Store


def diverges(task: OpenSetTask, recipe: Recipe, folder: Path) -> None:
    """Stands for a generative network that does not converge."""
    raise TrainingError("the loss is nan in epoch 1")


DIVERGES = replace(NEAREST, name="Diverges", train=diverges)


def test_methods_with_networks_of_their_own_are_compared_and_one_that_diverges_loses_its_own_row_alone(
    split: TrainedSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method in (DIVERGES, NEAREST):
        monkeypatch.setitem(METHODS, method.name, method)
    store = Store(tmp_path / "storage")
    (trial,) = split.trials([METHODS["PROSER"].finetune(split.recipe.finetune)], store, bf16=False)
    run_job(trial.job(split.task, split.pretrained, False), ignore)

    names = ("MaxLogit", "Diverges", "PROSER", "Dummy", "Nearest mean")
    built = compare([split], names, False, store, tmp_path)
    found, failures = read_compared(Artefact(tmp_path, ""))
    rows = {row["method"]: row for row in found}
    assert list(rows) == ["MaxLogit", "PROSER", "Nearest mean"]  # Dummy was not trained
    assert failures == ["Diverges, class split 0: the loss is nan in epoch 1"]
    assert not built.complete
    assert all(0 < row["metrics"]["test/unknown_3/auroc"] <= 1 for row in rows.values())
    (own,) = (store.root / "methods").glob(f"*/{MANIFEST}")
    assert rows["Nearest mean"]["seconds"] == read_json(own)["seconds"]  # the pretraining is not among it
    assert 0 < rows["MaxLogit"]["seconds"] < rows["PROSER"]["seconds"]
