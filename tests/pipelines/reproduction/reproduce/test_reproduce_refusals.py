"""What `proser reproduce` refuses before any work, and the methods that it takes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from frozen_features import weights_of_timm
from own_networks import METHOD, NEAREST
from pipeline_runs import RunFolder, printed, quick_recipe
from reproductions import request

from pipelines.console import console
from pipelines.ports import free_ports
from pipelines.reproduction.reproducing import reproduce
from pipelines.reproduction.studies import method_names, prepare_study, resolve
from proser_core.baselines import METHODS
from proser_core.config import CalibrationConfig, ClusterConfig, FinetuneConfig, NetworkConfig, Recipe
from proser_core.errors import ConfigError, TrackingError
from proser_core.generative.networks import OWN_NETWORKS

pytestmark = pytest.mark.usefixtures("trains_here", "empty_figures")


@pytest.mark.usefixtures("own_network")
def test_methods_with_networks_of_their_own_are_left_out_unless_they_are_asked_for(folder: RunFolder) -> None:
    assert METHOD.name not in method_names(request(folder, "few", methods=()))
    assert METHOD.name in method_names(request(folder, "few", methods=(), own_networks="full"))
    beside = method_names(request(folder, "few", methods=("CROSR",)))
    assert beside == ["DHRNet + Softmax", "CROSR", "DHRNet, MaxLogit"]


@pytest.mark.usefixtures("own_network")
def test_a_network_that_a_task_does_not_suit_is_refused_by_name_before_any_work(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    picky = replace(NEAREST, refusal=lambda shape: f"{shape.image_size} pixels are too few")
    monkeypatch.setitem(OWN_NETWORKS, NEAREST.name, picky)
    with pytest.raises(ConfigError, match=r"Nearest \(mean\), plain cannot be trained on digits: 8 pixels are too few"):
        printed(reproduce, request(folder, "few", methods=(METHOD.name,)))


def scored(**fields: Any) -> Recipe:
    return replace(quick_recipe(), finetune=FinetuneConfig(), calibration=CalibrationConfig(**fields))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"recipe": replace(quick_recipe(), finetune=FinetuneConfig(beta=3.0))}, "--finetune.beta got 3.0, and every"),
        (
            {"recipe": scored(score="energy"), "register": ("MSP",)},
            "--register MSP registers a method by its own score",
        ),
        ({"recipe": scored(mirror=True), "register": ("MSP",)}, "--register MSP registers a method by its own score"),
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


def test_the_fine_tunes_are_those_of_the_features_that_were_decided(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU trains the whole of a pretrained network, with less weight decay: rows read these trainings."""
    monkeypatch.setattr("proser_core.networks.pretrained.MANY_IMAGES", 10)
    tiny = quick_recipe()
    network = NetworkConfig(backbone="timm:test_efficientnet", weights_file=str(weights_of_timm(tmp_path)))
    recipe = replace(
        tiny, network=network, cluster=ClusterConfig(gpus_per_worker=1.0), finetune=FinetuneConfig(weight_decay=0.01)
    )
    methods = ("PROSER", "CE control, MaxLogit", "Dummy")
    asked = request(folder, "few", methods=methods, recipe=recipe, image_size=32)
    prepared = prepare_study(asked, resolve(asked, "digits"), console())
    decided = prepared.recipes[0]
    assert (decided.network.features, decided.finetune.weight_decay) == ("head-first", 5e-4)
    assert {METHODS[name].finetune(decided) for name in methods} == set(prepared.inputs.finetunes)
    muon = replace(recipe, pretrain=replace(recipe.pretrain, optimizer="muon"))
    asked = request(folder, "few", methods=("PROSER, from scratch",), recipe=muon, image_size=32)
    with pytest.raises(ConfigError, match="no head is trained first"):
        prepare_study(asked, resolve(asked, "digits"), console())


def test_a_tracking_server_that_does_not_answer_is_refused_in_a_dry_run_too(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{free_ports(1)[0]}")
    wanted = replace(request(folder, "few", dry_run=True), storage=tmp_path / "storage")
    with pytest.raises(TrackingError, match=r"does not answer \(Connection refused\)"):
        printed(reproduce, wanted)
    assert list(tmp_path.iterdir()) == []
