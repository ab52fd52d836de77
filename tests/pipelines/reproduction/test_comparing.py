"""Stage compare on small trainings of digits, without Ray: methods with networks of their own beside the others."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_networks import BLUR, DIVERGES, DIVERGING, METHOD, NEAREST
from training_jobs import ignore

from pipelines.reproduction.comparing import compare, read_compared
from pipelines.storage.storage import Storage
from pipelines.workflow.trained_split import TrainedSplit
from proser_core.baselines import METHODS, Method
from proser_core.config import CalibrationConfig
from proser_core.data.tasks import OpenSetTask
from proser_core.errors import TrainingError
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.jobs.any_job import run_any
from proser_core.jobs.further_development import further_images
from proser_core.jobs.network_tables import trained_network
from proser_core.jobs.own_networks.plans import in_order, plan_network, waves
from proser_core.jobs.spec import WEIGHTS
from proser_core.jobs.worker import run_job
from proser_core.recognition.embedding_table import task_embeddings
from proser_core.recognition.evaluation import evaluate
from proser_core.recognition.scores import FURTHER_SCORES, NormalisedNeighbour
from proser_core.store.files import read_json
from proser_core.store.store import MANIFEST, Artefact
from proser_core.titles import CHOSEN

pytestmark = pytest.mark.slow


def test_methods_with_networks_of_their_own_are_compared_and_one_that_diverges_loses_its_own_row_alone(
    split: TrainedSplit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for method, network in ((DIVERGING, DIVERGES), (METHOD, NEAREST)):
        monkeypatch.setitem(METHODS, method.name, method)
        monkeypatch.setitem(OWN_NETWORKS, network.name, network)
    monkeypatch.setitem(OWN_NETWORKS, BLUR.name, BLUR)
    store = Storage(tmp_path / "storage")
    wanted = [plan_network(each, "quick", split.recipe, split.task, store) for each in (NEAREST, DIVERGES)]
    assert [[plan.network.name for plan in wave] for wave in waves(in_order(wanted))] == [
        ["blur"],
        ["Nearest (mean), plain", "Diverges"],
    ]
    for plan in in_order(wanted):
        with nullcontext() if plan.network is not DIVERGES else pytest.raises(TrainingError):
            run_any(plan.job(), ignore)
    (trial,) = split.trials([METHODS["PROSER"].finetune(split.recipe)], store)
    run_job(trial.job(split.task, split.pretrained), ignore)

    (fresh,) = split.trials([METHODS["PROSER, from scratch"].finetune(split.recipe)], store)
    run_job(fresh.job(split.task, split.pretrained), ignore)

    split = replace(split, recipe=replace(split.recipe, calibration=CalibrationConfig(target_rate=0.8)))
    names = ("MaxLogit", "Diverging", "PROSER", "PROSER, from scratch", "Dummy", "Nearest mean")
    built = compare([split], names, "quick", [None], store, tmp_path)
    found, failures = read_compared(Artefact(tmp_path, ""))
    rows = {row["method"]: row for row in found}
    # Dummy was not trained
    assert list(rows) == ["MaxLogit", "PROSER", "PROSER, from scratch", "Nearest mean"]
    assert failures == ["Diverging, class split 0: the loss is nan in epoch 1"]
    assert not built.complete
    assert all(0 < row["metrics"]["test/unknown_3/auroc"] <= 1 for row in rows.values())
    assert all(row["metrics"]["val/known_rate"] == pytest.approx(0.8, abs=0.01) for row in rows.values())
    own = [read_json(path)["seconds"] for path in (store.root / "methods").glob(f"*/{MANIFEST}")]
    assert len(own) == 2  # its own and that of the part; the pretraining is not among it
    assert rows["Nearest mean"]["seconds"] == pytest.approx(sum(own))
    assert rows["Nearest mean"]["own"] == {"network": "Nearest (mean), plain", "key": wanted[0].folder.name}
    assert 0 < rows["MaxLogit"]["seconds"] < rows["PROSER"]["seconds"]
    own_time = read_json(fresh.folder / MANIFEST)["seconds"]
    assert rows["PROSER, from scratch"]["seconds"] == pytest.approx(own_time)  # it uses no pretraining


@pytest.fixture(scope="module")
def trained(split: TrainedSplit, tmp_path_factory: pytest.TempPathFactory) -> Storage:
    """A storage with PROSER's fine-tune and its control's."""
    store = Storage(tmp_path_factory.mktemp("trained"))
    for name in ("PROSER", "CE control, MaxLogit"):
        (trial,) = split.trials([METHODS[name].finetune(split.recipe)], store)
        run_job(trial.job(split.task, split.pretrained), ignore)
    return store


def scored_rows(
    split: TrainedSplit,
    store: Storage,
    folder: Path,
    methods: Sequence[str] = ("MSP", "CE control, MaxLogit", "PROSER"),
    **calibration: Any,
) -> dict[str, Any]:
    """What methods and scores have of each network, by row; KNN by name, or a choice."""
    split = replace(split, recipe=replace(split.recipe, calibration=CalibrationConfig(**calibration)))
    further = further_images(split.recipe, split.task, None, store)
    compare([split], methods, "quick", [further], store, folder)
    rows, failures = read_compared(Artefact(folder, ""))
    assert not failures
    names = [row["method"] for row in rows]
    assert len(set(names)) == len(names)
    return {row["method"]: row for row in rows}


def test_a_score_that_is_named_is_a_row_of_each_network(split: TrainedSplit, trained: Storage, tmp_path: Path) -> None:
    rows = scored_rows(split, trained, tmp_path, score="KNN")
    assert list(rows) == ["MSP", "CE control, MaxLogit", "PROSER", "KNN", "CE control, KNN", "PROSER, KNN"]
    task = OpenSetTask.load(split.task.path)
    tables = task_embeddings(
        trained_network(split.recipe, None, task.num_known, split.pretrained.path / WEIGHTS), task, torch.device("cpu")
    )
    knn = NormalisedNeighbour.fit(tables["train"], np.asarray(task.train.targets))
    assert rows["KNN"]["metrics"] == pytest.approx(evaluate(tables, knn, task, 0.95).flat())
    assert rows["PROSER, KNN"]["seconds"] == rows["PROSER"]["seconds"]


def test_a_score_that_placeholders_alone_have_is_no_row_of_their_controls(
    split: TrainedSplit, trained: Storage, tmp_path: Path
) -> None:
    rows = scored_rows(split, trained, tmp_path, score="p(unknown)")
    assert list(rows) == ["MSP", "CE control, MaxLogit", "PROSER", "PROSER, p(unknown)"]


def test_every_score_of_each_network_stands_beside_the_one_that_development_data_chooses(
    split: TrainedSplit, trained: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, "mine", Method("mine", "no paper", NormalisedNeighbour))
    plain = scored_rows(split, trained, tmp_path, methods=("MSP", "CE control, MaxLogit", "PROSER", "mine"))
    own = plain.pop("mine")["metrics"]
    rows = scored_rows(split, trained, tmp_path, score="auto", development=("noise",))
    assert {"MaxLogit", "OpenMax", *FURTHER_SCORES, "pretrained net, chosen score"} <= rows.keys()
    assert {f"{net}, {name}" for net in ("CE control", "PROSER") for name in (*FURTHER_SCORES, CHOSEN)} <= rows.keys()
    assert {"PROSER, gap", "CE control, gap", "gap"}.isdisjoint(rows)
    assert own == pytest.approx(rows["KNN"]["metrics"], abs=1e-6), "a method that reads embeddings has its row"
    for name, row in plain.items():
        assert rows[name]["metrics"] == pytest.approx(row["metrics"], abs=1e-6)
    for net in ("pretrained net", "CE control", "PROSER"):
        chosen = rows[f"{net}, {CHOSEN}"]
        score = chosen["choice"].partition(", chosen by")[0]
        own = {"pretrained net": score, "CE control": f"CE control, {score}", "PROSER": f"PROSER, {score}"}[net]
        assert chosen["metrics"] == rows["PROSER" if own == "PROSER, gap" else own]["metrics"]
        assert " on noise" in chosen["choice"]
