"""From the name of a backbone to what a training needs: its weights as a file, its image size, its normalisation."""

from dataclasses import replace
from pathlib import Path

from proser_core.config import NetworkConfig, Recipe
from proser_core.config.network import NO_WEIGHTS
from proser_core.errors import ConfigError
from proser_core.networks.backbone import Backbone
from proser_core.networks.libraries import build, fetch, is_of_library, pretrained_of
from proser_core.networks.stages import staged
from proser_core.networks.weights import load_headless


def with_pretrained(recipe: Recipe) -> Recipe:
    """The recipe with what its backbone, torchvision:NAME or timm:NAME, was trained with: `network.weights_file`,
    `data.image_size` where it is 0, and `data.normalisation` where none is given. Other recipes stay as they are.

    Raises ConfigError for names that the library lacks, where its package is missing, and where weights can neither be
    found nor downloaded; also for an image size of 0 where no library says one.
    """
    network, data = recipe.network, recipe.data
    if not is_of_library(network):
        if not data.image_size:
            raise ConfigError(
                f"data.image_size is 0, and the backbone {network.backbone} has no size of its own; give one in pixels"
            )
        return recipe
    about = pretrained_of(network)
    if not network.weights_file and network.weights != NO_WEIGHTS:
        network = replace(network, weights_file=str(fetch(network)))
    normalisation = data.normalisation or (about.normalisation if network.weights_file else ())
    size = data.image_size or about.image_size
    return replace(recipe, network=network, data=replace(data, image_size=size, normalisation=normalisation))


MANY_IMAGES = 2_000
"""From so many training images on, a GPU trains the whole network where nothing else is asked for. Not measured."""


def with_features(recipe: Recipe, num_images: int) -> Recipe:
    """The recipe with `network.features` auto decided by the number of training images and the hardware.

    Raises ConfigError where features of a backbone without weights would be frozen.
    """
    network = recipe.network
    if network.features == "auto":
        pays = not recipe.cluster.uses_gpu or num_images < MANY_IMAGES
        is_frozen = is_of_library(network) and bool(network.weights_file) and pays
        return replace(recipe, network=replace(network, features="frozen" if is_frozen else "trained"))
    if network.is_frozen("pretrain") and not network.weights_file:
        raise ConfigError(
            f"network.features is {network.features}, and {network.backbone} has fresh weights, whose embeddings mean "
            "nothing; give network.weights_file or a pretrained backbone, or set network.features to trained"
        )
    return recipe


def library_backbone(config: NetworkConfig, image_size: int) -> Backbone:
    """A network of torchvision or timm with the weights of `config.weights_file`, or fresh.

    Raises ConfigError for a name that the library lacks and for images that it does not take, CheckpointError for a
    file that does not fit.
    """
    if config.dropout:
        raise ConfigError(
            f"network.dropout is {config.dropout:g}, and {config.backbone} has the dropout that it was trained with; "
            "leave it at 0"
        )
    net, heads = build(config)
    if config.weights_file:
        remedy = f"Give the weights of {config.backbone} as {config.backbone.partition(':')[0]} saves them"
        load_headless(net, Path(config.weights_file), heads, remedy)
    return staged(net, config.backbone, image_size, config.split)


def describe_backbone(recipe: Recipe) -> str:
    """A backbone of torchvision or timm in a line: where its weights come from, what goes in and comes out, and what
    is mixed. Raises as `library_backbone` does."""
    network, size = recipe.network, recipe.data.image_size
    made = library_backbone(network, size)
    weights = network.weights_file or "fresh weights"
    mixtures = "of embeddings" if network.is_frozen("finetune") else made.split_point
    return (
        f"{network.backbone}: {weights}; images of {size} pixels, an embedding of {made.embedding_size}, features "
        f"{network.features}, mixtures {mixtures}"
    )
