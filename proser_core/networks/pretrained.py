"""From the name of a backbone to what a training needs: its weights as a file, its image size, its normalisation."""

from dataclasses import replace
from pathlib import Path

from proser_core.config import NetworkConfig, Recipe
from proser_core.config.network import NO_WEIGHTS, Features
from proser_core.errors import ConfigError
from proser_core.networks.backbone import Backbone
from proser_core.networks.libraries import build, fetch, pretrained_of
from proser_core.networks.stages import staged
from proser_core.networks.weights import load_headless


def with_pretrained(recipe: Recipe) -> Recipe:
    """The recipe with what its backbone, torchvision:NAME or timm:NAME, was trained with: `network.weights_file`,
    `data.image_size` where it is 0, and `data.normalisation` where none is given. Other recipes stay as they are.

    Raises ConfigError for names that the library lacks, where its package is missing, and where weights can neither be
    found nor downloaded; also for an image size of 0 where no library says one.
    """
    network, data = recipe.network, recipe.data
    if not network.is_of_library:
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
"""From so many training images on, a GPU fine-tunes the whole network where nothing else is asked for. Measured with
348 and 2,232 images: docs/results/own-images.md."""
LOWER_RATE, LOWER_DECAY = 0.1, 5e-4
"""Learning rate of such a fine-tune, as a share of `finetune.lr`, which suits heads, and its largest weight decay."""


def with_features(recipe: Recipe, num_images: int) -> Recipe:
    """The recipe with `network.features` auto decided by the number of training images and the hardware; a fine-tune of
    the whole network then has a lower learning rate.

    Raises ConfigError where features of a backbone without weights would be frozen.
    """
    network, tuned = recipe.network, recipe.finetune
    if network.features == "auto":
        features, _ = _decided(recipe, num_images)
        if features == "head-first":
            tuned = replace(tuned, lr=LOWER_RATE * tuned.lr, weight_decay=min(tuned.weight_decay, LOWER_DECAY))
        return replace(recipe, network=replace(network, features=features), finetune=tuned)
    if network.is_frozen("pretrain") and not network.weights_file:
        raise ConfigError(
            f"network.features is {network.features}, and {network.backbone} has fresh weights, whose embeddings mean "
            "nothing; give network.weights_file or a pretrained backbone, or set network.features to trained"
        )
    return recipe


def _decided(recipe: Recipe, num_images: int) -> tuple[Features, str]:
    """What auto stands for, and why, for people."""
    if not recipe.network.has_library_weights:
        return "trained", "fresh weights"
    if not recipe.cluster.uses_gpu:
        return "frozen", "no GPU is used"
    if num_images < MANY_IMAGES:
        return "frozen", f"a GPU, and fewer than {MANY_IMAGES:,} training images"
    features: Features = "trained" if recipe.finetune.start == "scratch" else "head-first"
    return features, f"a GPU, and at least {MANY_IMAGES:,} training images"


def library_backbone(config: NetworkConfig, image_size: int) -> Backbone:
    """A network of torchvision or timm with the weights of `config.weights_file`, or fresh.

    Raises ConfigError for a name that the library lacks and for images that it does not take, CheckpointError for a
    file that does not fit.
    """
    if config.dropout:
        raise ConfigError(
            f"network.dropout is {config.dropout:g}, and {config.backbone} has the dropout that it was trained with; "
            "give --network.dropout 0: the recipe or the schedule may have set it"
        )
    net, heads = build(config)
    if config.weights_file:
        remedy = f"Give the weights of {config.backbone} as {config.backbone.partition(':')[0]} saves them"
        load_headless(net, Path(config.weights_file), heads, remedy)
    return staged(net, config.backbone, image_size, pretrained_of(config).image_size, config.split)


def describe_backbone(recipe: Recipe, asked: Features = "trained", num_images: int = 0) -> str:
    """A backbone of torchvision or timm in a line: where its weights come from, what goes in and comes out, what
    becomes of it (and why, where `asked` is auto), and what is mixed. Raises as `library_backbone` does."""
    network, size = recipe.network, recipe.data.image_size
    made = library_backbone(network, size)
    weights = network.weights_file or "fresh weights"
    mixtures = "of embeddings" if network.is_frozen("finetune") else made.split_point
    return (
        f"{network.backbone}: {weights}; images of {size} pixels, an embedding of {made.embedding_size}, features "
        f"{_features_in_words(recipe, asked, num_images)}, mixtures {mixtures}"
    )


def _features_in_words(recipe: Recipe, asked: Features, num_images: int) -> str:
    found = [f"auto: {_decided(recipe, num_images)[1]}"] if asked == "auto" else []
    if recipe.network.features == "head-first":
        found.append(f"the whole network is fine-tuned in the end, learning rate {recipe.finetune.lr:g}")
    return recipe.network.features + (f" ({'; '.join(found)})" if found else "")
