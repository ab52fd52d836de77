"""Backbones of torchvision and timm by name: their stages, their weights, and what is refused."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch
from efficientnet_lite0 import BACKBONE, write_weights
from safetensors.torch import load_file
from sklearn.datasets import load_sample_image
from small_tasks import bit_equal, make_classifier
from torch import nn
from torchvision import models

from proser_core.config import DataConfig, NetworkConfig, Recipe, decisive_network
from proser_core.data.decoding import to_rgb_square
from proser_core.data.normalisation import evaluation_batches
from proser_core.errors import CheckpointError, ConfigError
from proser_core.networks.backbone import Backbone
from proser_core.networks.folding import folded
from proser_core.networks.libraries import fetch, pretrained_of
from proser_core.networks.nets import add_placeholders, make_closed_set_net
from proser_core.networks.pretrained import describe_backbone, with_pretrained
from proser_core.recognition.open_set_classifier import OpenSetClassifier

SPLITS = ("early", "middle", "late")
STAGES = {
    "torchvision:mobilenet_v3_small": (64, 1024, ("features.3", "features.8", "features.11")),
    "torchvision:efficientnet_b0": (64, 1280, ("features.3.1", "features.5.2", "features.7.0")),
    "torchvision:shufflenet_v2_x0_5": (64, 1024, ("stage2.3", "stage3.7", "stage4.3")),
    "timm:test_efficientnet": (64, 256, ("blocks.2.0", "blocks.3.0", "blocks.4.0")),
    "timm:test_vit": (160, 64, ("", "model", "model")),
}
"""By backbone: image size, size of the embedding, and the last module of phi_pre; of a transformer the image or the
embedding."""


def images(size: int, count: int = 2) -> torch.Tensor:
    return torch.randn(count, 3, size, size, generator=torch.Generator().manual_seed(1))


def net_of(backbone: str, split: str = "middle", **more):
    closed_set = make_closed_set_net(NetworkConfig(backbone=backbone, split=split, **more), 5, STAGES[backbone][0], 0)
    return add_placeholders(closed_set, 2, seed=0)


@pytest.mark.parametrize("backbone", STAGES)
def test_a_backbone_is_cut_by_its_own_stages_and_stays_the_network_that_it_is(backbone):
    size, embedding, places = STAGES[backbone]
    weights = []
    for split, place in zip(SPLITS, places, strict=True):
        net = net_of(backbone, split).eval()
        hidden = net.hidden(images(size))
        whole = net.backbone(images(size))
        assert whole.shape == (2, embedding)
        assert net.backbone.embedding_size == embedding
        assert torch.equal(net.backbone.post(hidden), whole)
        expected = {"": "of images", "model": "of embeddings"}.get(place, f"after {place}")
        assert net.backbone.split_point == f"{split}: {expected}"
        weights.append(net.state_dict())
    assert torch.equal(net_of(backbone, "early").hidden(images(size)), images(size)) == (places[0] == "")
    assert bit_equal(weights[0], weights[1])
    assert bit_equal(weights[1], weights[2])


@pytest.mark.parametrize("backbone", STAGES)
def test_every_weight_gets_a_gradient(backbone):
    net = net_of(backbone).train().to(memory_format=torch.channels_last)
    sum(logits.square().sum() for logits in net(images(STAGES[backbone][0], 4))).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in net.parameters())


def test_the_embedding_is_what_the_librarys_own_network_gives_its_classifier(tmp_path):
    theirs = models.mobilenet_v3_small().eval()
    path = tmp_path / "mobilenet.pth"
    torch.save(theirs.state_dict(), path)
    ours = net_of("torchvision:mobilenet_v3_small", weights_file=str(path)).eval().backbone
    given: list[torch.Tensor] = []
    theirs.classifier[-1].register_forward_pre_hook(lambda module, inputs: given.append(inputs[0]))
    theirs(images(64))
    torch.testing.assert_close(ours(images(64)), given[0])


def test_efficientnet_lite0_with_its_weights_sees_a_daisy(tmp_path):
    path = write_weights(tmp_path / "lite0.safetensors")
    recipe = with_pretrained(
        Recipe(network=NetworkConfig(backbone=BACKBONE, weights_file=str(path)), data=DataConfig(image_size=0))
    )
    net = make_closed_set_net(recipe.network, 1000, recipe.data.image_size, seed=0).eval()
    state = load_file(path)
    net.classifier.load_state_dict({name: state[f"classifier.{name}"] for name in ("weight", "bias")})
    (flower,) = evaluation_batches(
        to_rgb_square(load_flower(), recipe.data.image_size)[None],
        (recipe.data.normalisation[:3], recipe.data.normalisation[3:]),
        torch.device("cpu"),
    )
    assert timm.data.ImageNetInfo().index_to_description(int(net(flower).argmax())) == "daisy"


def load_flower():
    from PIL import Image

    return Image.fromarray(load_sample_image("flower.jpg"))


def recipe_of(backbone: str, **network) -> Recipe:
    return Recipe(network=NetworkConfig(backbone=backbone, **network), data=DataConfig(image_size=0))


def test_a_name_brings_its_weights_its_image_size_and_its_normalisation(tmp_path, monkeypatch):
    """The library's own cache stands in for the download."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # where nothing listens
    cached = tmp_path / "hub" / "checkpoints" / "mobilenet_v3_small-047dcff4.pth"
    cached.parent.mkdir(parents=True)
    theirs = models.mobilenet_v3_small()
    torch.save(theirs.state_dict(), cached)
    recipe = with_pretrained(recipe_of("torchvision:mobilenet_v3_small"))
    assert recipe.data.image_size == 224
    assert recipe.data.normalisation == (0.485, 0.456, 0.406, 0.229, 0.224, 0.225)
    ours = make_closed_set_net(recipe.network, 3, 64, seed=0).backbone.stages
    assert torch.equal(ours.features[0][0].weight, theirs.features[0][0].weight)
    cached.unlink()
    assert with_pretrained(recipe) == recipe
    assert fetch(recipe.network) == Path(recipe.network.weights_file)
    reason = (
        r"IMAGENET1K_V1 of torchvision:resnet18 could not be downloaded .*; fetch https://download.pytorch.org/models/"
        r"resnet18-\w+.pth elsewhere and give --network.weights-file FILE, .* the recipe folder, "
    )
    with pytest.raises(ConfigError, match=reason):
        with_pretrained(recipe_of("torchvision:resnet18"))


def test_what_is_given_stays_and_fresh_weights_are_normalised_by_the_training_images():
    given = (0.5, 0.5, 0.5, 0.1, 0.1, 0.1)
    recipe = recipe_of("timm:test_efficientnet", weights="none")
    fresh = with_pretrained(recipe)
    assert fresh.data.image_size == pretrained_of(recipe.network).image_size == 160
    assert (fresh.network.weights_file, fresh.data.normalisation) == ("", ())
    own = replace(recipe, data=DataConfig(image_size=64, normalisation=given))
    assert with_pretrained(own) == own
    assert with_pretrained(Recipe()) == Recipe()
    assert "fresh weights; images of 64 pixels, an embedding of 256, features auto, mixtures middle: after" in (
        describe_backbone(own)
    )


def test_the_name_of_the_weights_decides_nothing_beside_their_content(tmp_path):
    path = tmp_path / "weights.pth"
    path.write_bytes(b"1")
    named, other = (recipe_of("timm:test_vit", weights=name, weights_file=str(path)) for name in ("DEFAULT", "in1k"))
    assert decisive_network(named.network) == decisive_network(other.network)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ({"backbone": "torchvison:resnet18"}, r"no library of backbones .*'torchvison'; did you mean 'torchvision'\?"),
        ({"backbone": "torchvision:resnet81"}, r"torchvision has no model 'resnet81'; did you mean resnet18"),
        ({"backbone": "timm:convnext_tny"}, r"timm has no model 'convnext_tny'; did you mean .*convnext_tiny"),
        ({"backbone": "timm:"}, r"timm has no model ''; timm's own list_models\(\) has all names"),
        ({"backbone": "torchvision:resnet18", "weights": "IMAGENET1K_V2"}, r"did you mean 'IMAGENET1K_V1'\?"),
        (
            {"backbone": "timm:resnet18", "weights": "a1_in2k"},
            r"no weights of timm:resnet18 .*did you mean 'a1_in1k'\?",
        ),
        (
            {"backbone": "timm:resnet18.a1_in1k"},
            r"timm:resnet18.a1_in1k names weights too; give timm:resnet18 and --network.weights a1_in1k$",
        ),
        ({"backbone": "timm:resnet18.nope", "weights": "none"}, r"timm:resnet18.nope names weights too"),
        ({"backbone": "resnet10t.c3_in1k"}, r"no backbone is called 'resnet10t.c3_in1k'. Available: "),
        ({"backbone": "torchvision:squeezenet1_0"}, r"has no linear classifier, so that it gives no embedding"),
        ({"backbone": "torchvision:googlenet"}, r"classifies in more than one place"),
        ({"backbone": "timm:test_vit", "dropout": 0.1}, r"network.dropout is 0.1, and timm:test_vit has the dropout"),
        ({"backbone": "timm:vit_tiny_patch16_224"}, r"does not take images of 64 pixels .*set data.image_size to 224"),
    ],
)
def test_names_and_fields_that_are_none_are_refused_with_what_to_do(network, message):
    with pytest.raises(ConfigError, match=message):
        make_closed_set_net(NetworkConfig(**network), 5, 64, seed=0)


def test_statistics_of_every_kind_of_batch_norm_are_kept():
    stages = {"body": nn.Sequential(nn.Flatten(), nn.BatchNorm1d(3)), "head": nn.Identity()}
    made = Backbone(stages, 3, {"middle": "body"})
    made.keeps_statistics = True
    made.train()(torch.randn(4, 3, 1, 1))
    assert not made.stages.body[1].running_mean.any()


def test_without_timm_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ConfigError, match=r"backbones of timm need the package timm: pip install timm"):
        with_pretrained(recipe_of("timm:resnet18"))


def test_other_backbones_have_no_size_and_no_weights_by_name():
    with pytest.raises(ConfigError, match=r"image_size is 0, and the backbone classifier32 has no size of its own"):
        with_pretrained(recipe_of("classifier32"))
    with pytest.raises(ConfigError, match=r"network.weights is 'none', and the backbone resnet18 has no use for it"):
        make_closed_set_net(NetworkConfig(backbone="resnet18", weights="none"), 5, 32, seed=0)


@pytest.mark.parametrize(
    "values", [(0.5,) * 5, (0.5, 0.5, 0.5, 0.0, 1.0, 1.0), (0.5, 0.5, float("nan"), 1.0, 1.0, 1.0)]
)
def test_a_normalisation_that_is_none_is_refused(values):
    with pytest.raises(ConfigError, match=r"data.normalisation is .* three means, then three standard deviations"):
        DataConfig(normalisation=values)


def test_a_file_of_another_network_is_refused_by_its_first_differences(tmp_path):
    path = tmp_path / "resnet.pth"
    torch.save(models.resnet18().state_dict(), path)
    with pytest.raises(CheckpointError, match=r"is missing.*Give the weights of timm:test_vit as timm saves them"):
        make_closed_set_net(NetworkConfig(backbone="timm:test_vit", weights_file=str(path)), 5, 160, seed=0)


def test_a_saved_classifier_needs_neither_file_nor_network_and_decides_alike(monkeypatch, tmp_path):
    """Nor that the library still has weights of that name; only the package, which is no damage of the model."""
    path = tmp_path / "weights.pth"
    torch.save(timm.create_model("test_efficientnet").state_dict(), path)
    network = NetworkConfig(backbone="timm:test_efficientnet", weights_file=str(path))
    taken_back = replace(network, weights="in1k_of_old")
    net = add_placeholders(make_closed_set_net(network, 3, 64, seed=0), 2, seed=0).train()
    net(images(64, 4))  # moves the running statistics
    replace(make_classifier(), net=net, network=taken_back, image_size=64).save(tmp_path / "classifier")
    path.unlink()
    classifier = OpenSetClassifier.load(tmp_path / "classifier")
    assert classifier.network == replace(taken_back, weights_file="")
    loaded = classifier.net.eval()
    assert torch.equal(loaded(images(64)).known, net.eval()(images(64)).known)
    assert torch.equal(folded(loaded)(images(64)).known, loaded(images(64)).known)
    assert any(isinstance(module, nn.BatchNorm2d) for module in folded(loaded).modules())
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(CheckpointError, match=r"backbones of timm need the package timm: pip install timm$"):
        OpenSetClassifier.load(tmp_path / "classifier")
