"""Stage compare on small trainings of digits, without Ray: methods with networks of their own beside the others."""

from contextlib import nullcontext
from pathlib import Path

import pytest
from own_networks import BLUR, DIVERGES, DIVERGING, METHOD, NEAREST
from pipeline_runs import ignore

from pipelines.reproduction.comparing import compare, read_compared
from pipelines.workflow.training import TrainedSplit
from proser_core.baselines import METHODS
from proser_core.errors import TrainingError
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.jobs.any_job import run_any
from proser_core.jobs.own_plans import in_order, plan_own, waves
from proser_core.jobs.worker import run_job
from proser_core.store.files import read_json
from proser_core.store.store import MANIFEST, Artefact, Store


def test_methods_with_networks_of_their_own_are_compared_and_one_that_diverges_loses_its_own_row_alone(
    split: TrainedSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method, network in ((DIVERGING, DIVERGES), (METHOD, NEAREST)):
        monkeypatch.setitem(METHODS, method.name, method)
        monkeypatch.setitem(OWN_NETWORKS, network.name, network)
    monkeypatch.setitem(OWN_NETWORKS, BLUR.name, BLUR)
    store = Store(tmp_path / "storage")
    wanted = [plan_own(each, "quick", split.recipe, split.task, store, False) for each in (NEAREST, DIVERGES)]
    assert [[plan.network.name for plan in wave] for wave in waves(in_order(wanted))] == [
        ["blur"],
        ["Nearest", "Diverges"],
    ]
    for plan in in_order(wanted):
        with nullcontext() if plan.network is not DIVERGES else pytest.raises(TrainingError):
            run_any(plan.job(bf16=False), ignore)
    (trial,) = split.trials([METHODS["PROSER"].finetune(split.recipe.finetune)], store, bf16=False)
    run_job(trial.job(split.task, split.pretrained, False), ignore)

    names = ("MaxLogit", "Diverging", "PROSER", "Dummy", "Nearest mean")
    built = compare([split], names, "quick", False, store, tmp_path)
    found, failures = read_compared(Artefact(tmp_path, ""))
    rows = {row["method"]: row for row in found}
    assert list(rows) == ["MaxLogit", "PROSER", "Nearest mean"]  # Dummy was not trained
    assert failures == ["Diverging, class split 0: the loss is nan in epoch 1"]
    assert not built.complete
    assert all(0 < row["metrics"]["test/unknown_3/auroc"] <= 1 for row in rows.values())
    own = [read_json(path)["seconds"] for path in (store.root / "methods").glob(f"*/{MANIFEST}")]
    assert len(own) == 2  # its own and that of the part; the pretraining is not among it
    assert rows["Nearest mean"]["seconds"] == pytest.approx(sum(own))
    assert rows["Nearest mean"]["own"] == {"network": "Nearest", "key": wanted[0].folder.name}
    assert 0 < rows["MaxLogit"]["seconds"] < rows["PROSER"]["seconds"]
