"""`proser job`, the runner, `proser import`: as if the pipeline had trained it, and nothing trained twice."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from mlflow.entities import Run
from pipeline_runs import Proser, RunFolder, printed, quick_recipe, write_space

from pipelines.cluster.cluster import Cluster
from pipelines.reports.spaces import spaces_of
from pipelines.reports.sweep_table import read_table
from pipelines.workflow.offline_jobs import import_job, write_job
from pipelines.workflow.requests import JobRequest
from proser_core import job as runner
from proser_core.config import DataConfig, Recipe
from proser_core.errors import CheckpointError, ConfigError, TrainingError
from proser_core.jobs.spec import write_failure
from proser_core.processor import resolve_precision

pytestmark = pytest.mark.usefixtures("empty_figures", "empty_programs")


def recipe() -> Recipe:
    return replace(quick_recipe(), space="two_points", precision="auto")


@pytest.fixture(scope="module")
def out(run_folder: RunFolder, spaces: Path) -> Path:
    """What the runner leaves of the two-point recipe, from a carried task."""
    write_space(spaces, "two_points", '{"beta": tune.grid_search([1.0, 2.0])}')
    there = run_folder.root / "there"
    there.mkdir()
    request = JobRequest(recipe(), there / "JOB.json", with_task=True, storage=run_folder.root / "first")
    printed(write_job, request)
    shutil.rmtree(run_folder.root / "first")
    assert runner.main([str(there / "JOB.json"), str(there / "out")]) == 0
    shutil.rmtree(there / "task")
    return there / "out"


def test_the_command_to_run_a_job_file_can_be_pasted(tmp_path: Path) -> None:
    _, text = printed(write_job, JobRequest(quick_recipe(), tmp_path / "my job.json"))
    assert "python -m proser_core.job 'my job.json' OUT" in text


@pytest.mark.parametrize(("option", "output"), [("--output", "images/JOB.json"), ("--storage", "JOB.json")])
def test_images_that_travel_with_a_job_are_not_written_among_ones_own(option: str, output: str, tmp_path: Path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    storage = images / "storage" if option == "--storage" else tmp_path / "storage"
    own = replace(recipe(), data=DataConfig(name="folder", num_known=2, unknown_settings=(1,)))
    with pytest.raises(ConfigError, match=f"{option} writes to .*taken for classes"):
        printed(write_job, JobRequest(own, tmp_path / output, images, with_task=True, storage=storage))
    assert list(images.iterdir()) == []


@pytest.fixture(scope="module")
def imported(out: Path, run_folder: RunFolder) -> tuple[str, Run]:
    """The printed text of an import into an empty storage, and its MLflow run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cluster, "connect", lambda cluster: pytest.fail("something was to be trained"))
        code, text = printed(import_job, out, run_folder.storage)
    assert code == 0
    (parent,) = run_folder.parents()
    return text, parent


def test_the_job_file_has_the_control_the_recipes_point_and_the_space_and_its_task(out: Path) -> None:
    values = json.loads((out.parent / "JOB.json").read_text())
    assert values["finetunes"] == [{"objective": "cross_entropy"}, {}, {"beta": 2.0}]
    assert values["task"].startswith("task/")
    assert values["code"].keys() == {"prepare", "train", "sources", "own"}
    assert "data_dir" not in values
    assert values["recipe"]["precision"] == "auto", "the machine that trains decides"


def test_an_import_has_a_run_for_each_training_with_its_curve_and_metrics(
    imported: tuple[str, Run], run_folder: RunFolder
) -> None:
    parent = imported[1]
    assert parent.info.status == "FINISHED"
    assert {"pretrain/loss/closed_set", "test/unknown_3/auroc", "dev/macro_f1"} <= parent.data.metrics.keys()
    children = run_folder.children(parent.info.run_id)
    assert len(children) == 3
    for child in children:
        history = run_folder.client.get_metric_history(child.info.run_id, "loss/closed_set")
        assert [metric.step for metric in history] == [0, 1]
        assert "test/unknown_1/macro_f1" in child.data.metrics


def test_an_import_registers_the_model_and_ends_with_the_tables(
    imported: tuple[str, Run], run_folder: RunFolder
) -> None:
    assert "models:/proser/1" in imported[0]
    assert "5 finished folders copied, 0 there already" in imported[0]
    assert imported[1].data.params["precision"] == ("bf16" if resolve_precision(recipe()) else "fp32")
    assert run_folder.client.get_registered_model("proser").aliases.keys() == {"candidate", "champion"}


def test_the_pipeline_then_finds_every_stage_finished(imported: tuple[str, Run], run_folder: RunFolder) -> None:
    outcome = run_folder.run(recipe())
    assert outcome.ran == set()
    assert outcome.parent_id == imported[1].info.run_id
    assert outcome.versions == 1
    assert not outcome.session.cluster._nodes


def test_a_second_import_changes_nothing(imported: tuple[str, Run], out: Path, run_folder: RunFolder) -> None:
    runs = len(run_folder._runs())
    code, text = printed(import_job, out, run_folder.storage)
    assert code == 0
    assert "0 finished folders copied, 5 there already" in text
    assert "every stage was already finished" in text
    assert len(run_folder._runs()) == runs


@pytest.fixture
def copy(out: Path, tmp_path: Path) -> Path:
    return shutil.copytree(out, tmp_path / "out")


def edit_job(copy: Path, **changes: object) -> None:
    values = json.loads((copy / "JOB.json").read_text())
    (copy / "JOB.json").write_text(json.dumps({**values, **changes}))


@pytest.mark.parametrize("name", ["weights.safetensors", "logits.npz", "epochs.jsonl"])
@pytest.mark.parametrize("harm", ["change", "delete"])
def test_a_changed_or_missing_file_is_refused_by_name(copy: Path, tmp_path: Path, name: str, harm: str) -> None:
    victim = sorted(copy.glob(f"trials/*/{name}"))[1]
    victim.write_bytes(victim.read_bytes() + b" ") if harm == "change" else victim.unlink()
    with pytest.raises(CheckpointError, match=f"{victim.parent.name}/{name} is "):
        printed(import_job, copy, tmp_path / "storage")
    assert not (tmp_path / "storage").exists()


def test_an_old_failure_in_the_storage_does_not_stand_for_a_training_that_is_missing(
    copy: Path, tmp_path: Path
) -> None:
    victim = sorted(copy.glob("trials/*"))[0]
    shutil.rmtree(victim)
    old = tmp_path / "storage" / "trials" / victim.name / "failure.txt"
    old.parent.mkdir(parents=True)
    old.write_text("an old one")
    with pytest.raises(ConfigError, match=f"and nothing is trained.*proser_core.job {copy}/JOB.json {copy}`"):
        printed(import_job, copy, tmp_path / "storage")


def test_inputs_of_other_trainings_are_refused(copy: Path, tmp_path: Path) -> None:
    path = sorted(copy.glob("trials/*/manifest.json"))[0]
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(CheckpointError, match="records inputs that do not give the folder's name"):
        printed(import_job, copy, tmp_path / "storage")


@pytest.mark.parametrize(
    ("finetunes", "reason"),
    [
        ([{}, {"beta": 7.0}], r"lacks beta=7, and nothing is trained"),
        ([{"objective": "cross_entropy"}], "no finished PROSER fine-tune"),
    ],
)
def test_a_list_of_trainings_that_are_not_there_is_refused(
    copy: Path, tmp_path: Path, finetunes: list[dict], reason: str
) -> None:
    edit_job(copy, finetunes=finetunes)
    with pytest.raises(ConfigError, match=reason):
        printed(import_job, copy, tmp_path / "storage")


def test_the_reason_of_a_failed_pretraining_is_said(copy: Path, tmp_path: Path) -> None:
    """As the runner leaves it: no results."""
    (copy / "results.json").unlink()
    (pretraining,) = copy.glob("pretrain/*")
    shutil.rmtree(pretraining)
    write_failure(pretraining, "the loss is nan in epoch 1")
    with pytest.raises(TrainingError, match=f"pretraining of {copy} failed: the loss is nan in epoch 1; run"):
        printed(import_job, copy, tmp_path / "storage")


def test_networks_of_methods_own_are_left_to_the_command_that_reports_them(copy: Path, tmp_path: Path) -> None:
    edit_job(copy, own_methods=["CROSR"])
    with pytest.raises(ConfigError, match=rf"own_methods, CROSR, whose .* with --import-from {copy} instead of --jobs"):
        printed(import_job, copy, tmp_path / "storage")
    assert not (tmp_path / "storage").exists()


def test_other_sources_are_refused(copy: Path, tmp_path: Path) -> None:
    code = json.loads((copy / "JOB.json").read_text())["code"]
    edit_job(copy, code={**code, "train": "0", "sources": {**code["sources"], "proser_core.rng": "0"}})
    with pytest.raises(ConfigError, match=r"the source of proser_core\.rng is not that.* import with that proser"):
        printed(import_job, copy, tmp_path / "storage")


def test_a_list_of_its_own_is_a_sweep_and_a_run_of_its_own_with_its_failures(
    imported: tuple[str, Run], copy: Path, run_folder: RunFolder
) -> None:
    edit_job(copy, finetunes=[{}, {"gamma": 1e38}])
    values = json.loads((copy / "JOB.json").read_text())
    del values["task"]
    (copy.parent / "JOB.json").write_text(json.dumps(values))
    assert runner.main([str(copy.parent / "JOB.json"), str(copy)]) == 1
    code, text = printed(import_job, copy, run_folder.storage)
    assert code == 1
    assert "gamma=1e+38" in text
    assert "must stay finite" in text
    parents = run_folder.parents()
    assert len(parents) == 2
    (other,) = (run for run in parents if run.info.run_id != imported[1].info.run_id)
    children = run_folder.children(other.info.run_id)
    assert sorted(run.info.status for run in children) == ["FAILED", "FINISHED"]


def test_a_search_space_whose_file_is_elsewhere_has_the_points_of_the_job(copy: Path, tmp_path: Path) -> None:
    values = json.loads((copy / "JOB.json").read_text())
    edit_job(copy, recipe={**values["recipe"], "space": "mine.py", "model_name": "elsewhere"})
    code, text = printed(import_job, copy, tmp_path / "storage")
    assert (code, "models:/elsewhere/1" in text) == (0, True)
    (report,) = (tmp_path / "storage").glob("report/*")
    assert len(spaces_of(read_table(report))[0].points) == 2


def test_the_command_writes_a_job_of_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proser: Proser
) -> None:
    monkeypatch.chdir(tmp_path)
    code, printed, _ = proser("job", "digits", "--finetune.epochs", "1", "-o", "mine.json")
    assert code == 0
    values = json.loads((tmp_path / "mine.json").read_text())
    assert values["recipe"]["cluster"]["pretrain_workers"] == 1
    assert values["recipe"]["finetune"]["epochs"] == 1
    assert len(values["finetunes"]) == 26
    assert "one process trains all, here with cluster.pretrain_workers 1" in printed
