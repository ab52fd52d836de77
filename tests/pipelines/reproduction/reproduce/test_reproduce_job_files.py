"""Reproducing on a machine without Ray: job files, what a runner makes of them, and its import."""

import itertools
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from own_networks import METHOD
from pipeline_runs import RunFolder, printed
from reproductions import numbers, request

from pipelines.reproduction.reproducing import reproduce
from proser_core import job as runner
from proser_core.errors import ConfigError, TrainingError
from proser_core.jobs.runner import RESULTS
from proser_core.jobs.spec import FAILURE, PRETRAIN, TRIALS
from proser_core.store.files import read_json

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures")
CARRIED = ("MaxLogit", "PROSER")


def test_commands_to_run_job_files_can_be_pasted(folder: RunFolder, tmp_path: Path) -> None:
    jobs = tmp_path / "my jobs"
    _, text = printed(reproduce, request(folder, "few", jobs=jobs, storage=tmp_path / "storage"))
    assert "python -m proser_core.job 'my jobs'\n" in text
    assert f"with --import-from '{jobs}'/*/OUT instead of --jobs" in " ".join(text.split())


@pytest.mark.slow
@pytest.mark.usefixtures("own_network")
def test_networks_of_methods_travel_with_job_files(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {"methods": ("MaxLogit", METHOD.name), "storage": tmp_path / "storage", "split_indices": (0,)}
    asked["recipe"] = replace(request(folder, "few").recipe, precision="auto")
    code, _ = printed(reproduce, request(folder, "few", jobs=tmp_path / "jobs", **asked))
    assert code == 0
    (job,) = (tmp_path / "jobs").glob("*/JOB.json")
    assert read_json(job)["recipe"]["precision"] == "auto", "the machine that trains decides"
    with pytest.MonkeyPatch.context() as patch:  # the folders are those of the Python that wrote the file
        patch.setattr("proser_core.jobs.own_networks.plans.network_code", lambda network: ["of another", "Python"])
        assert runner.main([str(job), str(tmp_path / "OUT")]) == 0
    told = capsys.readouterr().out
    assert f"command again, with --import-from {tmp_path / 'OUT'} instead of --jobs" in told
    assert "proser import" not in told
    trainings = read_json(tmp_path / "OUT" / RESULTS)["trainings"]
    assert METHOD.name in trainings["Nearest (mean), plain"]["methods"]
    code, text = printed(reproduce, request(folder, "few", import_from=(tmp_path / "OUT",), **asked))
    assert code == 0
    assert METHOD.name in {row["method"] for row in numbers(text)}


@pytest.mark.slow
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
        assert "every stage was already finished" in printed(reproduce, again)[1]

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
