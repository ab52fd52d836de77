"""JOB.json: what is read, what is written, and what is refused in one line."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from job_runs import CONTROL, RECIPE, write_job
from torchvision.models import resnet18

from proser_core.config import FinetuneConfig, decisive_network, to_json
from proser_core.errors import ConfigError
from proser_core.generative.networks import OWN_NETWORKS
from proser_core.job import main
from proser_core.jobs.job_file import CodeVersions, read_job_file
from proser_core.jobs.own_networks.methods import OwnMethods
from proser_core.jobs.own_networks.plans import network_code
from proser_core.jobs.trials import WORKER, control_of
from proser_core.store.code_version import source_digests


def recipe_with(block: str, **values: Any) -> dict[str, Any]:
    return {"recipe": {**RECIPE, block: {**RECIPE.get(block, {}), **values}}}


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": ({"finetune": []}, "did you mean 'finetunes'"),
    "recipe that is none": ({"recipe": 5}, "recipe is 5"),
    "block that is none": ({"recipe": {"data": 5}}, "recipe.data is 5"),
    "value of another kind": (recipe_with("pretrain", epochs="ten"), "recipe.pretrain.epochs is 'ten'; need a whole"),
    "images that only Ray decodes": (recipe_with("data", streaming=True), "train with `proser run`"),
    "the control as the recipe": (
        recipe_with("finetune", **CONTROL),
        "finetune.objective cross_entropy is reserved for the control",
    ),
    "network field that the backbone has no use for": (
        recipe_with("network", backbone="resnet18", dropout=0.2),
        "network.dropout is 0.2, and the backbone resnet18 has no use",
    ),
    "weights that are not there": (
        {
            "recipe": {
                "data": {"image_size": 64},
                "network": {"backbone": "torchvision:resnet18", "weights_file": "no.pth"},
            }
        },
        "no.pth, which does not exist",
    ),
    "a number beyond all numbers": ({"finetunes": [{"beta": 10**400}]}, "finetunes[0]: finetune.beta is too large"),
    "a fine-tune's batch of more than all images": ({"finetunes": [{}, {"batch_size": 4000}]}, "batch_size 4000"),
    "settings that are no list": (recipe_with("data", unknown_settings=3), "data.unknown_settings is 3; need a list"),
    "several workers": (recipe_with("cluster", pretrain_workers=2), "cluster.pretrain_workers is 2; one process"),
    "a batch of more than all images": (recipe_with("finetune", batch_size=4000), "more than the"),
    "fine-tunes that are no list": ({"finetunes": {"beta": 1}}, "need a list"),
    "threads beyond reason": (
        {"recipe": {"cluster": {"cpus_per_worker": 3_000_000_000}}},
        "cluster.cpus_per_worker is 3000000000, the threads of this process; need at most 1,024",
    ),
    "a method that is no name": (
        {"own_methods": [5]},
        "own_methods: no method with a network of its own is called '5'",
    ),
    "a schedule that is no name": ({"own_schedule": 5}, "no choice for own_schedule is called '5'"),
    "a fine-tune that is none": ({"finetunes": [3]}, "finetunes[0]: finetune is 3"),
    "unknown field of a fine-tune": (
        {"finetunes": [{}, {"gama": 1}]},
        "finetunes[1]: no field of finetune is called 'gama'",
    ),
    "wrong value of a fine-tune": ({"finetunes": [{"num_dummies": 0}]}, "finetunes[0]: finetune.num_dummies is 0"),
    "a fine-tune that the recipe cannot have": (
        {"finetunes": [{}, {"mixture_batch_norm": "separate", "batch_size": 2}]},
        "finetunes[1]: finetune.batch_size 2 is normalised in 2 parts of one image",
    ),
    "task and data set": ({"task": "a", "data_dir": "b"}, "both task and data_dir"),
    "task that is not there": ({"task": "nowhere"}, "has no manifest.json"),
    "task that is not a path": ({"task": 3}, "need the path of a folder"),
    "task of a user that there is not": ({"task": "~nouser/x"}, "task is '~nouser/x', which is not a path"),
    "task with a byte that no path has": ({"task": "a\0b"}, "which is not a path"),
    "data set that is not there": (
        {"recipe": {"data": {"name": "cifar100"}}, "data_dir": "nowhere"},
        "nowhere does not exist",
    ),
    "code that is none": ({"code": {"train": 3}}, "code.train is 3"),
    "code that is incomplete": ({"code": {"train": "x", "prepare": "y"}}, "code is incomplete: it lacks sources"),
}


def refusal(job: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which the runner refuses a job file."""
    assert main([str(job), str(job.parent / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("proser: ")
    return line


@pytest.mark.parametrize("case", BAD)
def test_a_bad_job_file_is_one_line_and_exit_code_2(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, part = BAD[case]
    assert part in refusal(write_job(tmp_path, **changes), capsys)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (None, "does not exist"),
        ("{", "not a readable JSON file"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "holds a list"),
    ],
)
def test_a_job_file_that_is_none_is_one_line_and_exit_code_2(
    text: str | None, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "JOB.json").write_text(text)
    assert part in refusal(tmp_path / "JOB.json", capsys)
    assert not (tmp_path / "out").exists()


def test_other_sources_are_refused_by_the_name_of_the_first_module_that_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = CodeVersions.current()
    changed = {**code.sources, "proser_core.learning.losses": "0" * 64, "proser_core.rng": "0" * 64}
    job = write_job(tmp_path, code=vars(replace(code, train="other", sources=changed)))
    assert "the source of proser_core.learning.losses is not that" in refusal(job, capsys)


def test_the_code_versions_of_the_file_are_used_where_the_sources_are_equal(tmp_path: Path) -> None:
    code = replace(CodeVersions.current(), train="of another Python")
    assert read_job_file(write_job(tmp_path, code=vars(code))).code.train == "of another Python"
    assert read_job_file(write_job(tmp_path)).code == CodeVersions.current()


def test_networks_of_methods_own_have_the_code_versions_of_the_file_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = CodeVersions.current(OwnMethods(("CROSR",)))
    assert CodeVersions.current().own == {}
    assert code.own["DHRNet"] == tuple(network_code(OWN_NETWORKS["DHRNet"]))
    other_python = replace(code, own=dict.fromkeys(code.own, ("of another", "Python")))
    assert not other_python.has_keys_of(code)
    job = write_job(tmp_path, own_methods=["CROSR"], code=to_json(other_python))
    assert read_job_file(job).code == other_python
    changed = {**code.sources, "proser_core.generative.crosr": "0" * 64}
    job = write_job(tmp_path, own_methods=["CROSR"], code=to_json(replace(other_python, sources=changed)))
    assert "the source of proser_core.generative.crosr is not that" in refusal(job, capsys)


def test_equal_code_versions_are_enough_whatever_the_bytes_of_the_files(tmp_path: Path) -> None:
    code = replace(CodeVersions.current(), sources={"proser_core.rng": "with another comment"})
    assert read_job_file(write_job(tmp_path, code=vars(code))).code == code


def test_weights_travel_beside_the_job_file_under_a_name_from_their_content(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    network = {"backbone": "torchvision:resnet18", "weights_file": "resnet18.pth"}
    path = write_job(here, recipe={"data": {"image_size": 64}, "network": network})
    torch.save(resnet18().state_dict(), here / "resnet18.pth")
    job = read_job_file(path)
    assert job.recipe.network.weights_file == str(here / "resnet18.pth")
    there.mkdir()
    name = job.save(there / "JOB.json")
    shutil.rmtree(here)
    moved = there.rename(tmp_path / "moved")
    again = read_job_file(moved / "JOB.json")
    assert again.recipe.network.weights_file == str(moved / name)
    assert name.startswith("weights-" + decisive_network(again.recipe.network)["weights_file"][:16])
    assert again.save(moved / "other.json") == name


def test_sources_are_all_that_a_training_imports() -> None:
    assert {WORKER, "proser_core.rng", "proser_core.networks.nets"} <= source_digests(WORKER).keys()


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    finetunes = [CONTROL, {}, {"beta": 3, "start": "scratch"}, {**CONTROL, "epochs": 7, "beta": 9.0}]
    recipe = recipe_with("finetune", gamma=0.5, num_dummies=2)["recipe"]
    job = read_job_file(write_job(tmp_path, recipe=recipe, finetunes=finetunes, task="some/task"))
    assert job.task == tmp_path / "some/task"
    job.save(tmp_path / "again.json")
    assert read_job_file(tmp_path / "again.json") == job
    written = json.loads((tmp_path / "again.json").read_text())["finetunes"]
    assert written == [CONTROL, {}, {"beta": 3.0, "start": "scratch"}, {**CONTROL, "epochs": 7}]


def test_a_control_is_that_of_the_pipeline_whatever_its_placeholders(tmp_path: Path) -> None:
    job = read_job_file(write_job(tmp_path, finetunes=[{**CONTROL, "beta": 5.0}]))
    assert job.finetunes == (control_of(job.recipe).finetune,)


def test_a_whole_number_for_a_real_one_gives_the_same_fine_tune(tmp_path: Path) -> None:
    job = read_job_file(write_job(tmp_path, finetunes=[{"beta": 2}]))
    assert isinstance(job.finetunes[0], FinetuneConfig)
    assert type(job.finetunes[0].beta) is float


def test_an_incomplete_recipe_takes_the_defaults(tmp_path: Path) -> None:
    job = read_job_file(write_job(tmp_path, recipe={"finetune": {"epochs": 3}}, finetunes=None))
    assert (job.recipe.finetune.epochs, job.recipe.pretrain.epochs, job.finetunes) == (3, 20, ())
    with pytest.raises(ConfigError, match=r"JOB\.json"):
        read_job_file(tmp_path / "nowhere" / "JOB.json")
