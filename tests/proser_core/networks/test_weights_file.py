"""Torchvision's own weights from a local file."""

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torchvision.models import resnet18

from proser_core.config import DataConfig, NetworkConfig, Recipe, decisive_fields, decisive_network
from proser_core.config.named_finetunes import control
from proser_core.errors import CheckpointError
from proser_core.jobs.network_tables import trained_network
from proser_core.jobs.spec import job_inputs
from proser_core.networks.nets import make_closed_set_net
from proser_core.networks.weights import save_weights
from proser_core.store.store import Artefact


@pytest.fixture(scope="module")
def torchvision_net():
    torch.manual_seed(5)
    net = resnet18()
    net.train()(torch.randn(4, 3, 64, 64))  # moves the running statistics
    return net.eval()


@pytest.fixture(scope="module")
def file(torchvision_net, tmp_path_factory) -> Path:
    """The weights of the network."""
    return write(torchvision_net.state_dict(), tmp_path_factory.mktemp("weights") / "resnet18.pth")


def network(path: Path, backbone: str = "torchvision:resnet18") -> NetworkConfig:
    return NetworkConfig(backbone=backbone, weights_file=str(path))


def write(state: dict, path: Path) -> Path:
    torch.save(state, path)
    return path


def test_the_embedding_is_the_one_that_torchvision_computes(torchvision_net, file):
    backbone = make_closed_set_net(network(file), 7, 64, seed=0).backbone.eval()
    headless = copy.deepcopy(torchvision_net)
    headless.fc = torch.nn.Identity()
    images = torch.randn(2, 3, 64, 64)
    assert torch.equal(backbone(images), headless(images))


def test_the_head_is_fresh_and_keyed_by_the_seed(file):
    first, again, other = (make_closed_set_net(network(file), 7, 64, seed=seed).classifier.weight for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_file_without_the_step_counters_of_old_torch_is_accepted(torchvision_net, tmp_path):
    state = {k: v for k, v in torchvision_net.state_dict().items() if not k.endswith("num_batches_tracked")}
    net = make_closed_set_net(network(write(state, tmp_path / "old.pth")), 7, 64, seed=0)
    assert torch.equal(net.backbone.stages.bn1.running_mean, torchvision_net.bn1.running_mean)
    assert int(net.backbone.stages.bn1.num_batches_tracked) == 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda state: state.pop("layer3.0.conv1.weight"), r"layer3.0.conv1.weight is missing"),
        (lambda state: state.update({"surplus.weight": torch.zeros(1)}), r"surplus.weight is not in the network"),
        (lambda state: state.update({"bn1.bias": torch.zeros(3)}), r"bn1.bias has shape \(3,\), the network \(64,\)"),
        (lambda state: state.pop("bn1.num_batches_tracked"), r"bn1.num_batches_tracked is missing"),
    ],
)
def test_what_does_not_fit_is_named(torchvision_net, tmp_path, spoil, message):
    state = dict(torchvision_net.state_dict())
    spoil(state)
    with pytest.raises(CheckpointError, match=rf"{message}\. Give the weights of torchvision:resnet18"):
        make_closed_set_net(network(write(state, tmp_path / "resnet18.pth")), 7, 64, seed=0)


def test_weights_of_another_resnet_and_a_file_that_is_missing_are_refused(file, tmp_path):
    with pytest.raises(CheckpointError, match="does not fit the network"):
        make_closed_set_net(network(file, "torchvision:resnet50"), 7, 64, seed=0)
    with pytest.raises(CheckpointError, match=r"weights-file got .*, which does not exist; need a .safetensors"):
        make_closed_set_net(network(tmp_path / "none.pth"), 7, 64, seed=0)


def test_a_network_that_was_trained_is_made_without_the_file_that_it_began_with(file, tmp_path):
    trained = tmp_path / "trained.safetensors"
    recipe = Recipe(network=network(file), data=DataConfig(image_size=64))
    net = make_closed_set_net(recipe.network, 3, 64, seed=1)
    save_weights(net, trained)
    elsewhere = replace(recipe, network=network(tmp_path / "nowhere.pth"))
    found = trained_network(elsewhere, None, 3, trained).state_dict()
    assert all(torch.equal(value, found[name]) for name, value in net.state_dict().items())


def test_content_decides_and_place_does_not(tmp_path):
    for name, content in (("a", b"1"), ("b", b"1"), ("c", b"2")):
        (tmp_path / name).write_bytes(content)
    recipes = [Recipe(network=network(tmp_path / name)) for name in "abc"]
    task = Artefact(tmp_path, "digest")
    for a, b, c in (
        map(decisive_fields, recipes),
        (job_inputs("pretrain", recipe, task, "", False, "code") for recipe in recipes),
    ):
        assert a == b
        assert a != c
        assert str(tmp_path) not in str(a)
    assert decisive_network(NetworkConfig())["weights_file"] == ""
    with pytest.raises(CheckpointError, match=r"network.weights_file .*nowhere cannot be read: No such file"):
        decisive_network(network(tmp_path / "nowhere"))


def test_where_images_are_mixed_decides_nothing_for_a_control_which_mixes_none(tmp_path):
    finetune, task = control(Recipe().finetune), Artefact(tmp_path, "digest")
    recipes = (Recipe(network=NetworkConfig(split=split), finetune=finetune) for split in ("middle", "late"))
    middle, late = (job_inputs("finetune", each, task, "", False, "code") for each in recipes)
    assert middle == late
