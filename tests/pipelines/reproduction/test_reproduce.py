"""`proser reproduce`: a protocol through the stages of a sweep, over class splits, into one report."""

import csv
import io
import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_networks import BLUR, DIVERGES, DIVERGING, METHOD, NEAREST
from pipeline_runs import RunFolder, printed, tiny_recipe
from rich.console import Console
from small_tasks import random_images

from pipelines.recipes import PRETRAINING
from pipelines.reports.page import HTML
from pipelines.reproduction import protocols
from pipelines.reproduction.protocols import Column, Protocol, Study
from pipelines.reproduction.report import NUMBERS
from pipelines.reproduction.reproducing import mean_metrics, reproduce
from pipelines.reproduction.request import ReproduceRequest
from pipelines.reproduction.results import SplitResult
from pipelines.reproduction.studies import facts, method_names, resolve
from pipelines.tracking.models import load
from pipelines.workflow.promotion import promote
from pipelines.workflow.requests import PromoteRequest
from proser_core import job as runner
from proser_core.baselines import METHODS, Method
from proser_core.config import FinetuneConfig
from proser_core.errors import ConfigError, DataError, TrainingError
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.jobs.runner import RESULTS
from proser_core.jobs.spec import FAILURE, PRETRAIN, TRIALS
from proser_core.recognition.logits import LogitTable
from proser_core.recognition.model_card import model_card
from proser_core.recognition.scores import MaxLogit
from proser_core.store.files import read_json

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures")

DATA = replace(tiny_recipe().data, development="none", unknown_settings=(2, 3))
CARRIED = ("MaxLogit", "PROSER")
AUROC = "test/unknown_3/auroc"
TRAINED = ("MSP", "MaxLogit", "OpenMax", "PROSER")


@pytest.fixture(scope="module")
def folder(run_folder: RunFolder, patch: pytest.MonkeyPatch) -> RunFolder:
    """Two protocols on digits that read from one training."""
    columns = {name: Column(name, "digits", f"test/{name}") for name in ("unknown_3/auroc", "closed_set_accuracy")}
    patch.setitem(protocols.STUDIES, "digits", Study("Digits", DATA, (0, 1)))
    patch.setitem(protocols.PROTOCOLS, "few", Protocol("Five digits known", "here", (columns["unknown_3/auroc"],)))
    patch.setitem(protocols.PROTOCOLS, "closed", Protocol("Accuracy", "here", (columns["closed_set_accuracy"],)))
    return run_folder


def request(folder: RunFolder, *names: str, **options: Any) -> ReproduceRequest:
    asked = {"methods": TRAINED, "image_size": 8, "data_dir": None, "storage": folder.storage, **options}
    recipe = replace(tiny_recipe(), finetune=FinetuneConfig(epochs=2))
    return ReproduceRequest(names, **{"recipe": recipe, **asked})


@pytest.fixture(scope="module")
def planned(folder: RunFolder) -> str:
    return printed(reproduce, request(folder, "few", dry_run=True))[1]


@pytest.fixture(scope="module")
def made(folder: RunFolder, planned: str) -> tuple[int, str]:
    return printed(reproduce, request(folder, "few"))


@pytest.fixture(scope="module")
def widened(folder: RunFolder, made: tuple[int, str]) -> tuple[int, str]:
    return printed(reproduce, request(folder, "few", "closed"))


def report_of(text: str) -> Path:
    return next(Path(line.removeprefix("Report: ")) for line in text.splitlines() if line.startswith("Report: "))


def numbers(text: str) -> list[dict[str, str]]:
    """Rows of the report's table of every number."""
    with (report_of(text).parent / NUMBERS).open() as file:
        return list(csv.DictReader(file))


def test_a_plan_is_printed_before_anything_is_trained(planned: str) -> None:
    parts = ("5 known; test settings 2, 3", "2 to make", "2 to train", "1 per split: those of the methods", "about")
    assert [part for part in parts if part not in planned] == []
    assert "Report" not in planned


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
    assert "every stage was found finished" in text
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


@pytest.fixture
def own_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method with a network of its own, which needs another one."""
    monkeypatch.setitem(METHODS, METHOD.name, METHOD)
    for network in (BLUR, NEAREST, DIVERGES):
        monkeypatch.setitem(OWN_NETWORKS, network.name, network)


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
def test_methods_with_networks_of_their_own_are_left_out_unless_they_are_asked_for(folder: RunFolder) -> None:
    assert METHOD.name not in method_names(request(folder, "few", methods=()))
    assert METHOD.name in method_names(request(folder, "few", methods=(), own_networks="full"))
    beside = method_names(request(folder, "few", methods=("CROSR",)))
    assert beside == ["DHRNet + Softmax", "CROSR", "DHRNet, MaxLogit"]


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
def test_a_network_that_a_task_does_not_suit_is_refused_by_name_before_any_work(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    picky = replace(NEAREST, refusal=lambda shape: f"{shape.image_size} pixels are too few")
    monkeypatch.setitem(OWN_NETWORKS, NEAREST.name, picky)
    with pytest.raises(ConfigError, match=r"Nearest \(mean\), plain cannot be trained on digits: 8 pixels are too few"):
        printed(reproduce, request(folder, "few", methods=(METHOD.name,)))


@pytest.mark.usefixtures("own_network")
def test_networks_of_methods_travel_with_job_files(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"methods": ("MaxLogit", METHOD.name), "storage": tmp_path / "storage", "split_indices": (0,)}
    code, _ = printed(reproduce, request(folder, "few", jobs=tmp_path / "jobs", **asked))
    assert code == 0
    (job,) = (tmp_path / "jobs").glob("*/JOB.json")
    assert runner.main([str(job), str(tmp_path / "OUT")]) == 0
    told = capsys.readouterr().out
    assert f"command again, with --import-from {tmp_path / 'OUT'} instead of --jobs" in told
    assert "proser import" not in told
    trainings = read_json(tmp_path / "OUT" / RESULTS)["trainings"]
    assert METHOD.name in trainings["Nearest (mean), plain"]["methods"]
    code, text = printed(reproduce, request(folder, "few", import_from=(tmp_path / "OUT",), **asked))
    assert code == 0
    assert METHOD.name in {row["method"] for row in numbers(text)}


@pytest.mark.usefixtures("own_network")
def test_a_network_of_a_method_is_registered_beside_proser_promoted_and_predicts(
    folder: RunFolder, widened: tuple[int, str]
) -> None:
    asked = request(folder, "few", methods=("PROSER", METHOD.name), register=("PROSER", METHOD.name))
    named = replace(asked, recipe=replace(asked.recipe, model_name="own"))
    code, text = printed(reproduce, named)
    assert code == 0
    assert "registered: PROSER: own version 1 (candidate, champion)" in text
    assert "registered: Nearest mean: own version 2 (candidate)" in text
    for version in ("1", "2"):
        measured = load(f"models:/own/{version}").classifier.results
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


def test_means_are_over_class_splits() -> None:
    measured = ((0.5, 60.0), (0.7, 80.0), (0.6, 0.0))  # of the last nobody took the time
    results = [
        SplitResult("digits", split, "PROSER", {"auroc": auc}, time) for split, (auc, time) in enumerate(measured)
    ]
    assert mean_metrics(results) == {"proser/auroc": pytest.approx(0.6), "proser/seconds": 70}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"recipe": replace(tiny_recipe(), finetune=FinetuneConfig(beta=3.0))}, "finetune.beta is 3.0, and every"),
        ({"with_task": True}, "and needs --jobs FOLDER; give both"),
        ({"jobs": Path("there"), "import_from": (Path("OUT"),)}, "--jobs was given with --import-from"),
        ({"jobs": Path("there"), "dry_run": True}, "--jobs was given with --dry-run"),
        ({"import_from": (Path("OUT"),), "storage": "s3://b/x"}, "--storage got s3://b/x; "),
    ],
)
def test_what_cannot_be_reproduced_is_refused_before_any_work(
    folder: RunFolder, options: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        printed(reproduce, request(folder, "few", **options))


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


def test_outlier_sets_that_are_not_there_are_left_out_and_told(folder: RunFolder) -> None:
    wanted = request(folder, "mnist-outliers")
    asked = resolve(wanted, "mnist-outliers")
    assert asked.recipes[0].data.outliers == ("noise",)
    assert list(asked.left_out) == ["omniglot", "mnist-noise"]
    assert "omniglot was not found: no data directory was given; need omniglot/test-*" in asked.left_out["omniglot"]
    assert facts(wanted, [asked], [], {}, {}, bf16=False)["omniglot"] == "not measured: its images were not there"


def test_a_report_names_the_schedule_and_that_strong_is_another_one_for_mnist(folder: RunFolder) -> None:
    recipe = replace(tiny_recipe(), pretrain=PRETRAINING["strong"](), finetune=FinetuneConfig(epochs=2))
    wanted = request(folder, "mnist-outliers", recipe=recipe)
    told = facts(wanted, [resolve(wanted, "mnist-outliers")], [], {}, {}, bf16=False)
    assert "600 epochs of pretraining (sgd, cosine_restarts at 0.1, batches of 128), 2 of fine" in told["schedule"]
    assert "theirs for mnist has RandAugment 8" in told["schedule on MNIST"]
    assert "classifier32, images" in told["schedule"]
    dropped = replace(recipe, network=replace(recipe.network, dropout=0.2))
    told = facts(replace(wanted, recipe=dropped), [], [], {}, {}, bf16=False)
    assert "classifier32 with dropout 0.2, images" in told["schedule"]
    out = io.StringIO()
    with pytest.raises(DataError, match="mnist was not found"):
        reproduce(wanted, Console(file=out, width=400))
    assert "mnist-outliers: --pretraining strong is Vaze et al.'s for CIFAR; theirs for mnist has" in out.getvalue()


def test_a_report_names_the_seeds_of_trials_that_know_the_same_classes(folder: RunFolder) -> None:
    wanted = request(folder, "cifar+10", "cifar10", split_indices=(1, 3))
    resolved = [resolve(wanted, name) for name in ("cifar-plus", "cifar10")]
    assert [[recipe.seed for recipe in each.recipes] for each in resolved] == [[1, 3], [0, 0]]
    told = facts(wanted, resolved, [], {}, {}, bf16=False)["seed"]
    assert told == "0; of CIFAR10 against CIFAR100, whose trials have the same known classes, 1, 3"


class TestAMachineWithoutRay:
    @pytest.fixture(scope="class")
    def outs(self, folder: RunFolder) -> list[Path]:
        """What a runner made of the job file of each class split."""
        jobs = folder.root / "jobs"
        wanted = request(folder, "few", jobs=jobs, with_task=True, storage=folder.root / "here", methods=CARRIED)
        assert printed(reproduce, wanted)[0] == 0
        files = sorted(jobs.glob("*/JOB.json"))
        assert [path.parent.name for path in files] == ["digits-split-0", "digits-split-1"]
        assert runner.main([str(jobs)]) == 0
        return [path.parent / "OUT" for path in files]

    def test_it_is_reported_as_if_it_had_been_trained_here(
        self, outs: list[Path], folder: RunFolder, without_ray: None
    ) -> None:
        wanted = request(folder, "few", storage=folder.root / "here", methods=CARRIED, import_from=tuple(outs))
        code, text = printed(reproduce, wanted)
        assert code == 0
        assert text.count("2 finished folders copied, 1 there already") == 2  # what was prepared here
        assert {(row["split_index"], row["method"]) for row in numbers(text)} == set(itertools.product("01", CARRIED))
        again = replace(wanted, import_from=())
        assert "every stage was found finished" in printed(reproduce, again)[1]

    def test_what_is_not_finished_there_is_named(self, outs: list[Path], folder: RunFolder, tmp_path: Path) -> None:
        wanted = request(folder, "few", storage=tmp_path / "new", methods=CARRIED, import_from=tuple(outs[:1]))
        with pytest.raises(ConfigError, match="lacks digits, split 1: the pretraining, and nothing is trained"):
            printed(reproduce, wanted)
        others = replace(wanted, methods=("Dummy",), import_from=tuple(outs))
        with pytest.raises(ConfigError, match="lacks digits, split 0: beta=1 gamma=0 "):
            printed(reproduce, others)
        with pytest.raises(ConfigError, match=r"JOB\.json does not exist"):
            printed(reproduce, replace(wanted, import_from=(tmp_path,)))
        finer = replace(wanted, recipe=replace(wanted.recipe, precision="bf16"))
        with pytest.raises(
            ConfigError, match="trained in fp32, and this command trains in bf16; give --precision fp32"
        ):
            printed(reproduce, finer)

    def test_a_fine_tune_that_failed_there_is_a_failed_one_here(
        self, outs: list[Path], folder: RunFolder, tmp_path: Path
    ) -> None:
        copies = [shutil.copytree(out, tmp_path / out.parent.name) for out in outs]
        (proser,) = (copies[1] / TRIALS).iterdir()
        for path in proser.iterdir():
            path.unlink()
        (proser / FAILURE).write_text("the loss is nan in epoch 1")
        wanted = request(folder, "few", storage=tmp_path / "new", methods=CARRIED, import_from=tuple(copies))
        code, text = printed(reproduce, wanted)
        assert code == 1
        assert "the loss is nan in epoch 1" in text
        found = {(row["split_index"], row["method"]) for row in numbers(text)}
        assert found == {("0", "MaxLogit"), ("0", "PROSER"), ("1", "MaxLogit")}

    def test_a_pretraining_that_failed_there_is_a_failed_one_here(
        self, outs: list[Path], folder: RunFolder, tmp_path: Path
    ) -> None:
        out = shutil.copytree(outs[0], tmp_path / "OUT")
        (pretrained,) = (out / PRETRAIN).iterdir()
        for path in (*pretrained.iterdir(), out / RESULTS):
            path.unlink()
        shutil.rmtree(out / TRIALS)
        (pretrained / FAILURE).write_text("the loss is nan in epoch 1")
        wanted = request(folder, "few", storage=tmp_path / "new", import_from=(out,), split_indices=(0,))
        for methods in (CARRIED, (*CARRIED, "DHRNet + Softmax")):  # the runner trained no network of a method's own
            with pytest.raises(TrainingError, match="class split 0 failed: the loss is nan in epoch 1"):
                printed(reproduce, replace(wanted, methods=methods))
