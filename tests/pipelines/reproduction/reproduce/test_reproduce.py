"""`proser reproduce`: a protocol through the stages of a sweep, over class splits, into one report."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from own_networks import DIVERGING, METHOD, NEAREST
from pipeline_runs import RunFolder, printed
from reproductions import AUROC, TRAINED, numbers, report_of, request
from small_tasks import random_images

from pipelines.reports.page import HTML
from pipelines.reproduction import protocols
from pipelines.reproduction.protocols import Column, Protocol
from pipelines.reproduction.report import NUMBERS
from pipelines.reproduction.reproducing import reproduce
from pipelines.tracking.models import load
from pipelines.workflow.promotion import promote
from pipelines.workflow.requests import PromoteRequest
from proser_core.baselines import METHODS, Method
from proser_core.config import CalibrationConfig
from proser_core.errors import DataError
from proser_core.recognition.logit_tables import LogitTable
from proser_core.recognition.model_card import model_card
from proser_core.recognition.scores import MaxLogit
from proser_core.store.files import read_json

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures")


@pytest.fixture(scope="module")
def planned(folder: RunFolder) -> str:
    return printed(reproduce, request(folder, "few", dry_run=True))[1]


@pytest.fixture(scope="module")
def planned_mirrored(folder: RunFolder, planned: str) -> str:
    wanted = request(folder, "few", dry_run=True)
    mirrored = replace(wanted.recipe, calibration=replace(wanted.recipe.calibration, mirror=True))
    return printed(reproduce, replace(wanted, recipe=mirrored))[1]


@pytest.fixture(scope="module")
def made(folder: RunFolder, planned: str, planned_mirrored: str) -> tuple[int, str]:
    return printed(reproduce, request(folder, "few"))


@pytest.fixture(scope="module")
def widened(folder: RunFolder, made: tuple[int, str]) -> tuple[int, str]:
    return printed(reproduce, request(folder, "few", "closed"))


def test_a_plan_is_printed_before_anything_is_trained(planned: str) -> None:
    parts = ("5 known; test settings 2, 3", "2 to make", "2 to train", "1 per split: those of the methods", "about")
    assert [part for part in parts if part not in planned] == []
    assert "Report" not in planned


def test_passes_over_mirrored_images_are_in_the_time_of_a_plan(planned: str, planned_mirrored: str) -> None:
    assert re.search(r"fine-tune \d+:\d\d, compare \d+:\d\d\)", planned_mirrored)
    assert "compare" not in planned


def test_every_method_is_measured_on_every_class_split(made: tuple[int, str]) -> None:
    code, text = made
    assert code == 0
    aucs = [row for row in numbers(text) if row["metric"] == AUROC]
    assert {(row["split_index"], row["method"]) for row in aucs} == set(itertools.product("01", TRAINED))
    assert all(0 < float(row["value"]) <= 1 for row in aucs)
    assert HTML in text


def test_the_report_and_the_means_are_in_tracking(folder: RunFolder, made: tuple[int, str]) -> None:
    run = next(run for run in folder.parents() if run.info.run_name == "reproduce digits")
    assert run.info.status == "FINISHED"
    assert {HTML, NUMBERS, "results.md"} <= folder.files(run.info.run_id)
    values = [float(row["value"]) for row in numbers(made[1]) if (row["method"], row["metric"]) == ("MaxLogit", AUROC)]
    assert run.data.metrics["maxlogit/test/unknown_3/auroc"] == pytest.approx(sum(values) / 2)


def test_another_protocol_of_the_same_images_trains_nothing(widened: tuple[int, str], made: tuple[int, str]) -> None:
    code, text = widened
    assert code == 0
    assert "nothing to train" in text
    assert "closed-set accuracy" in text
    assert "sweep" not in text.splitlines()[-1]


def test_the_same_command_again_finds_everything(
    folder: RunFolder, widened: tuple[int, str], without_ray: None
) -> None:
    code, text = printed(reproduce, request(folder, "few", "closed"))
    assert code == 0
    assert "every stage was already finished" in text
    assert report_of(text) == report_of(widened[1])


def test_time_is_told_where_trainings_took_it(folder: RunFolder, made: tuple[int, str]) -> None:
    rows = [row for path in (folder.storage / "compare").glob("*/compared.json") for row in read_json(path)["rows"]]
    seconds = {row["method"]: row["seconds"] for row in rows if row["split_index"] == 0}
    assert 0 < seconds["MaxLogit"] < seconds["PROSER"]
    assert all("torch" in place for row in rows for place in row["trained_on"] if row["method"] in TRAINED)
    assert "torch" in (report_of(made[1]).parent / "results.md").read_text()


def test_methods_that_fine_tune_nothing_are_compared_by_themselves(folder: RunFolder, widened: tuple[int, str]) -> None:
    code, text = printed(reproduce, request(folder, "few", methods=("MSP", "MaxLogit")))
    assert code == 0
    assert {row["method"] for row in numbers(text)} == {"MSP", "MaxLogit"}


@pytest.mark.usefixtures("own_network")
def test_a_method_with_a_network_of_its_own_stands_beside_the_others(
    folder: RunFolder, widened: tuple[int, str]
) -> None:
    wanted = request(folder, "few", methods=("MaxLogit", METHOD.name))
    plan = printed(reproduce, replace(wanted, dry_run=True))[1]
    assert "blur, 2 to train, 2 epochs at" in plan
    assert "Nearest (mean), plain, 2 to train, 2 epochs at" in plan
    code, text = printed(reproduce, wanted)
    assert code == 0
    aucs = [float(row["value"]) for row in numbers(text) if (row["method"], row["metric"]) == (METHOD.name, AUROC)]
    assert len(aucs) == 2
    page = (report_of(text).parent / "results.md").read_text()
    assert "- Nearest (mean), plain, class split 0: known 5" in page
    assert "few_Nearest-mean-plain-the-first-images" in page
    assert "Nearest (mean), plain, schedule quick" in page
    again = printed(reproduce, request(folder, "few", methods=("MSP", METHOD.name)))[1]
    assert "own networks" not in again
    rows = [row for path in (folder.storage / "compare").glob("*/compared.json") for row in read_json(path)["rows"]]
    assert all("torch" in row["trained_on"][0] for row in rows if row["method"] == METHOD.name)


@pytest.mark.usefixtures("own_network")
def test_a_network_that_diverges_costs_the_rows_of_its_methods_alone_and_says_so(
    folder: RunFolder, widened: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(METHODS, DIVERGING.name, DIVERGING)
    code, text = printed(reproduce, request(folder, "few", methods=("MaxLogit", DIVERGING.name)))
    assert code == 1
    assert {row["method"] for row in numbers(text)} == {"MaxLogit"}
    assert "failed: Diverging, class split 0: the loss is nan in epoch 1" in text


@pytest.mark.usefixtures("own_network")
def test_a_network_of_a_method_is_registered_beside_proser_promoted_and_predicts(
    folder: RunFolder, widened: tuple[int, str]
) -> None:
    asked = request(folder, "few", methods=("PROSER", METHOD.name), register=("PROSER", METHOD.name))
    calibration = CalibrationConfig(target_rate=0.8)
    named = replace(asked, recipe=replace(asked.recipe, model_name="own", calibration=calibration))
    code, text = printed(reproduce, named)
    assert code == 0
    assert "registered: PROSER: models:/own/1 (candidate, champion)" in text
    assert "registered: Nearest mean: models:/own/2 (candidate); the champion is version 1" in text
    for version in ("1", "2"):
        measured = load(f"models:/own/{version}").classifier.results
        assert measured["val/known_rate"] == pytest.approx(0.8, abs=0.01)
        shown = folder.client.get_run(folder.client.get_model_version("own", version).run_id).data.metrics
        assert {name: shown[name] for name in measured} == measured
    found = load("models:/own@candidate").classifier
    assert found.own is not None
    assert found.own.name == NEAREST.name
    assert set(found.predict(random_images(3, 8)).labels) <= {*found.class_names, "unknown"}
    assert "Network Nearest (mean), plain, scored by MaxLogit" in model_card(found)
    code, text = printed(promote, PromoteRequest(model_name="own", force=True))
    assert code == 0  # compared on the same images
    assert "own version 2 is the champion now, instead of own version 1" in text


def test_a_method_that_cannot_be_calibrated_is_told_by_every_run(
    folder: RunFolder, widened: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Diverged(MaxLogit):
        def __call__(self, logits: LogitTable) -> np.ndarray:
            return np.full(len(logits), np.nan)

    monkeypatch.setitem(METHODS, "Diverged", Method("Diverged", "here", Diverged()))
    wanted = request(folder, "few", methods=("MaxLogit", "Diverged"))
    for _ in range(2):
        code, text = printed(reproduce, wanted)
        assert code == 1
        assert "failed: Diverged, class split 0: " in text
        assert {row["method"] for row in numbers(text)} == {"MaxLogit"}


def test_a_protocol_of_several_data_sets_measures_those_that_are_there(
    folder: RunFolder, made: tuple[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = [Column(study, study, "test/closed_set_accuracy") for study in ("digits", "svhn")]
    monkeypatch.setitem(protocols.PROTOCOLS, "both", Protocol("Accuracy", "here", tuple(columns)))
    code, text = printed(reproduce, request(folder, "both", methods=("MSP", "MaxLogit")))
    assert code == 0
    told = next(
        line for line in text.splitlines() if line.startswith("svhn: not measured: svhn was not found: no data")
    )
    assert "train_32x32.mat" in told
    assert "SVHN | not measured" in (report_of(text).parent / "results.md").read_text()
    with pytest.raises(DataError, match="svhn: svhn was not found"):
        printed(reproduce, request(folder, "svhn", "both"))
